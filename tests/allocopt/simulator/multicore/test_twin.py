"""The multicore simulator against its slow twin, for every policy without randomness."""

import numpy as np
import pytest
from support.multicore import random_jobs, random_machine
from support.slow_multicore import SlowMulticore

from allocopt.cluster.multicore import Machine
from allocopt.simulator.multicore.policies import ACTIONS, Action, JobSelection, NodeSelection
from allocopt.simulator.multicore.simulation import MulticoreSchedule
from allocopt.simulator.multicore.state import Execution, ExecutionKind
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
