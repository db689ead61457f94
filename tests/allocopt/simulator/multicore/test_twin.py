"""The multicore simulator against its slow twin, for every policy without randomness; and policies step by step."""

import numpy as np
import pytest
from support.multicore import random_jobs, random_machine
from support.slow_multicore import SlowMulticore

from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.cluster.multicore import Cluster, Machine, Node, Processor
from allocopt.errors import UsageError
from allocopt.simulator.multicore.policies import (
    ACTION_NAMES,
    ACTIONS,
    Action,
    JobSelection,
    NodeSelection,
)
from allocopt.simulator.multicore.run import DECISION, OVER, STALLED
from allocopt.simulator.multicore.simulation import MulticoreSchedule, MulticoreSimulation
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.scheduler import SchedulerError
from allocopt.simulator.simulate import simulate
from allocopt.traces.tasks import TaskWorkload

SURE = [
    action
    for action in ACTIONS
    if action.jobs not in (None, JobSelection.RANDOM) and action.nodes is not NodeSelection.RANDOM
]


def instance(seed: int, jobs: int = 25) -> tuple[Machine, TaskWorkload]:
    rng = np.random.default_rng(seed)
    machine = random_machine(rng)
    return machine, random_jobs(rng, machine, jobs)


def twin_of(machine: Machine, jobs: TaskWorkload, action: Action, execution: Execution) -> SlowMulticore:
    twin = SlowMulticore(machine, jobs, execution.kind is ExecutionKind.CONTENTION, execution.sharing)
    assert action.jobs is not None
    assert action.nodes is not None
    twin.run(action.jobs.name.lower(), action.nodes.name.lower())
    return twin


def check_equal(made: MulticoreSchedule, twin: SlowMulticore) -> None:
    jobs = range(len(made.jobs))
    assert twin.work_done == pytest.approx(made.jobs.work * made.jobs.tasks)
    assert made.start == pytest.approx([twin.start[job] for job in jobs])
    assert made.end == pytest.approx([twin.end[job] for job in jobs])
    assert made.job_energy_j == pytest.approx(twin.job_energy)
    assert made.processor_energy_j == pytest.approx([socket.energy for socket in twin.sockets])
    cores = [kind.cores for kind in made.machine.processors()]
    socket_of = np.repeat(np.arange(len(cores)), cores)
    assert socket_of[made.cores].tolist() == [number for job in jobs for number in twin.placed[job]]


@pytest.mark.slow
@pytest.mark.parametrize("action", SURE, ids=[action.name for action in SURE])
@pytest.mark.parametrize("kind", list(ExecutionKind))
def test_every_policy_gives_the_schedule_and_energy_of_the_twin(action: Action, kind: ExecutionKind) -> None:
    for seed in range(3):
        machine, jobs = instance(100 * ACTIONS.index(action) + seed)
        execution = Execution(kind, (1.0, 0.6, 0.25)[seed])
        check_equal(simulate(jobs, machine, action, execution=execution), twin_of(machine, jobs, action, execution))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_energy_is_the_integral_of_power_in_fine_steps(seed: int) -> None:
    machine, jobs = instance(seed, 8)
    made = simulate(jobs, machine, "shortest-low_power")
    twin = SlowMulticore(machine, jobs)
    twin.run("shortest", "low_power", step_s=0.05)
    assert made.energy_j == pytest.approx(sum(socket.energy for socket in twin.sockets))
    assert made.job_energy_j == pytest.approx(twin.job_energy)


@pytest.mark.parametrize("seed", range(4))
def test_what_jobs_and_idle_processors_take_is_all_of_it(seed: int) -> None:
    machine, jobs = instance(seed)
    made = simulate(jobs, machine, "random-random", seed=seed)
    assert made.energy_j == pytest.approx(made.node_energy_j.sum()) == pytest.approx(made.cluster_energy_j.sum())
    idle = made.energy_j - made.job_energy_j.sum()
    most = sum(kind.power.idle_w for kind in machine.processors() if kind.power) * made.makespan_s
    assert -1e-9 <= idle <= most


MACHINE = irmasim_testbed({3.4: 2, 1.7: 1})


def jobs_at(submit: list[float]) -> TaskWorkload:
    """Jobs of a task each."""
    one = np.ones(len(submit))
    names, ones = tuple(f"j{number}" for number in range(len(submit))), one.astype(np.int64)
    return TaskWorkload("made", names, np.array(submit), ones, ones, 1e10 * one, one, 100 * one, 1000 * one, 10 * one)


def test_there_are_36_pairs_and_the_void_action() -> None:
    assert len(ACTIONS) == len(set(ACTION_NAMES)) == 37
    assert ACTION_NAMES[-1] == "void"
    assert [Action.named(name) for name in ACTION_NAMES] == list(ACTIONS)
    assert Action.named("first-high_core") == Action.named("first-high_cores"), "as the paper's table has it"
    assert ACTIONS[6 * JobSelection.SHORTEST + NodeSelection.HIGH_GFLOPS].name == "shortest-high_gflops"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("shortest-high_gflop", "did you mean 'shortest-high_gflops'"),
        ("best", "must be void or JOBS-NODES, with JOBS one of random"),
    ],
)
def test_an_unknown_policy_is_named_with_what_there_is(name: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        Action.named(name)


def test_any_subset_can_be_chosen() -> None:
    assert Action.several() == ACTIONS
    assert [action.name for action in Action.several(["void", "first-low_power"])] == ["void", "first-low_power"]
    for wrong in ([], ["void", "void"]):
        with pytest.raises(UsageError, match="give distinct policies"):
            Action.several(wrong)
    with pytest.raises(UsageError, match="must select both jobs and nodes"):
        Action(JobSelection.FIRST)


@pytest.mark.parametrize("policy", ["random-random", "random-high_cores", "first-random"])
def test_random_policies_depend_on_the_seed_alone(policy: str) -> None:
    jobs = random_jobs(np.random.default_rng(0), MACHINE, 40)
    runs = [simulate(jobs, MACHINE, policy, seed=seed) for seed in (1, 1, 2)]
    assert (runs[0].cores == runs[1].cores).all()
    assert (runs[0].start == runs[1].start).all()
    assert (runs[0].cores != runs[2].cores).any() or (runs[0].start != runs[2].start).any()


def test_every_core_is_drawn_equally_often() -> None:
    nodes = (Node("narrow", (Processor("n", 1, 2.0),)), Node("wide", (Processor("w", 3, 2.0),)))
    jobs = jobs_at([20.0 * number for number in range(800)])
    made = simulate(jobs, Machine("two", (Cluster("c", nodes),)), "first-random", seed=5)
    assert (made.cores == 0).sum() == pytest.approx(200, abs=40)


def test_the_void_action_starts_nothing_and_alone_stalls() -> None:
    void = Action.named("void")
    simulation = MulticoreSimulation(MACHINE, jobs_at([0.0, 1.0]))
    assert simulation.to_decision() == DECISION
    assert simulation.decide(void) == 0
    assert simulation.to_decision() == DECISION
    assert simulation.decide(void) == 0
    assert simulation.to_decision() == STALLED
    with pytest.raises(SchedulerError, match="2 jobs have not ended, the first is job 'j0'"):
        simulation.schedule()
    with pytest.raises(UsageError, match="policy 'void' starts no jobs, so the simulation would never end"):
        simulate(jobs_at([0.0, 1.0]), MACHINE, "void")


@pytest.mark.parametrize("name", ["first-high_gflops", "shortest-low_power", "low_mem_bw-high_mem_bw"])
def test_stops_at_decisions_change_no_bit_of_a_schedule_and_a_reset_begins_anew(name: str) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        machine = random_machine(rng)
        jobs = random_jobs(rng, machine, 40)
        simulation = MulticoreSimulation(machine, jobs)
        for _ in range(2):
            simulation.reset()
            while simulation.to_decision() == DECISION:
                simulation.decide(Action.named(name))
            assert simulation.to_decision() == OVER
        made, whole = simulation.schedule(), simulate(jobs, machine, name)
        for stepped, at_once in ((made.start, whole.start), (made.end, whole.end), (made.cores, whole.cores)):
            np.testing.assert_array_equal(stepped, at_once)


def test_a_decision_that_is_not_taken_leaves_the_speeds_right() -> None:
    rng = np.random.default_rng(8)
    machine = random_machine(rng)
    jobs = random_jobs(rng, machine, 40)
    left, right = MulticoreSimulation(machine, jobs), MulticoreSimulation(machine, jobs)
    for decision in range(60):
        found = left.to_decision()
        assert found == right.to_decision()
        if found != DECISION:
            break
        right.decide(Action.named("void"))
        if decision % 3 == 0:
            assert left.decide(Action.named("first-high_cores")) == right.decide(Action.named("first-high_cores"))
    np.testing.assert_array_equal(left.multicore.jobs["start"], right.multicore.jobs["start"])
    assert np.asarray(left.multicore.processors["energy"]) == pytest.approx(right.multicore.processors["energy"])
