"""Names and sets of policies, and what each selection chooses on machines where that is plain."""

import numpy as np
import pytest
from support.multicore import random_jobs, random_machine

from allocopt.cluster.multicore import Cluster, ContentionConstants, Machine, Node, PowerConstants, Processor
from allocopt.errors import UsageError
from allocopt.simulator.multicore.policies import (
    ACTION_NAMES,
    ACTIONS,
    Action,
    JobSelection,
    NodeSelection,
)
from allocopt.simulator.multicore.run import DECISION, OVER, STALLED
from allocopt.simulator.multicore.simulation import MulticoreSimulation
from allocopt.simulator.scheduler import SchedulerError
from allocopt.simulator.simulate import simulate
from allocopt.traces.tasks import TaskWorkload

CONTENTION = ContentionConstants(-1.85e-5, 32000, 1.75, 3500, 45000, 3000)
NODES = {
    "fast": Node("fast", (Processor("f", 2, 4.0, 1.0, 30e3, CONTENTION, PowerConstants(6, 5, 3)),), 8000),
    "wide": Node("wide", (Processor("w", 6, 2.0, 1.0, 20e3, CONTENTION, PowerConstants(6, 5, 2)),), 4000),
    "large": Node("large", (Processor("l", 2, 2.0, 1.0, 20e3, CONTENTION, PowerConstants(6, 5, 2)),), 64000),
    "open": Node("open", (Processor("o", 2, 2.0, 1.0, 90e3, CONTENTION, PowerConstants(6, 5, 2)),), 4000),
    "cool": Node("cool", (Processor("c", 2, 1.0, 1.0, 20e3, CONTENTION, PowerConstants(1, 1, 0.1)),), 4000),
}
MACHINE = Machine("five", (Cluster("all", tuple(NODES.values())),))


def jobs_of(**columns: list[float]) -> TaskWorkload:
    """Jobs that differ in what is given."""
    n = len(next(iter(columns.values())))
    values = {name: np.array(given) for name, given in columns.items()}

    def column(name: str, otherwise: float) -> np.ndarray:
        return values.get(name, np.full(n, otherwise))

    return TaskWorkload(
        "made",
        tuple(f"j{number}" for number in range(n)),
        column("submit", 0.0),
        column("nodes", 1).astype(np.int64),
        column("tasks", 1).astype(np.int64),
        column("instructions", 1e10),
        column("ipc", 1.0),
        column("memory_mb", 100.0),
        column("volume_mb", 1000.0),
        column("estimate", 10.0),
    )


def test_there_are_36_pairs_and_the_void_action() -> None:
    assert len(ACTIONS) == len(set(ACTION_NAMES)) == 37
    assert ACTION_NAMES[-1] == "void"
    assert [Action.named(name) for name in ACTION_NAMES] == list(ACTIONS)
    assert Action.named("first-high_core") == Action.named("first-high_cores"), "as the paper's table has it"
    assert ACTIONS[6 * JobSelection.SHORTEST + NodeSelection.HIGH_GFLOPS].name == "shortest-high_gflops"


@pytest.mark.parametrize(
    ("name", "fault"),
    [("shortest-high_gflop", "did you mean 'shortest-high_gflops'"), ("best", "must be void or JOBS-NODES, of random")],
)
def test_an_unknown_policy_is_named_with_what_there_is(name: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        Action.named(name)


def test_any_subset_can_be_chosen() -> None:
    assert Action.several() == ACTIONS
    assert [action.name for action in Action.several(["void", "first-low_power"])] == ["void", "first-low_power"]
    for wrong in ([], ["void", "void"]):
        with pytest.raises(UsageError, match="at least one, and none twice"):
            Action.several(wrong)
    with pytest.raises(UsageError, match="selects jobs and nodes"):
        Action(JobSelection.FIRST)


@pytest.mark.parametrize("policy", ["random-random", "random-high_cores", "first-random"])
def test_random_policies_depend_on_the_seed_alone(policy: str) -> None:
    rng = np.random.default_rng(0)
    jobs = jobs_of(submit=rng.uniform(0, 5, 40).tolist(), volume_mb=rng.uniform(0, 1e5, 40).tolist())
    runs = [simulate(jobs, MACHINE, policy, seed=seed) for seed in (1, 1, 2)]
    assert (runs[0].cores == runs[1].cores).all()
    assert (runs[0].start == runs[1].start).all()
    assert (runs[0].cores != runs[2].cores).any() or (runs[0].start != runs[2].start).any()


def test_every_core_is_drawn_equally_often() -> None:
    jobs = jobs_of(submit=[20.0 * number for number in range(1400)])
    made = simulate(jobs, MACHINE, "first-random", seed=5)
    counts = np.bincount(made.cores, minlength=MACHINE.cores)
    first = np.cumsum([node.cores for node in NODES.values()]) - [node.cores for node in NODES.values()]
    per_node = np.add.reduceat(counts, first)
    assert per_node == pytest.approx([200, 600, 200, 200, 200], abs=60)


def test_the_void_action_starts_nothing_and_alone_stalls() -> None:
    void = Action.named("void")
    simulation = MulticoreSimulation(MACHINE, jobs_of(submit=[0.0, 1.0]))
    assert simulation.to_decision() == DECISION
    assert simulation.decide(void) == 0
    assert simulation.to_decision() == DECISION
    assert simulation.decide(void) == 0
    assert simulation.to_decision() == STALLED
    with pytest.raises(SchedulerError, match="2 jobs have not ended, the first is job 'j0'"):
        simulation.schedule()
    with pytest.raises(UsageError, match="policy 'void' starts no job, so that none would ever end"):
        simulate(jobs_of(submit=[0.0, 1.0]), MACHINE, "void")


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
