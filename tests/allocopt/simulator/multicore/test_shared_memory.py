"""Memory contention as an execution model of the engine that takes schedulers and allocators in Python."""

from pathlib import Path

import numpy as np
import pytest
from support.multicore import MEASURED_MAKESPAN_S, measured_jobs, measured_machine, random_machine
from support.schedulers import PlainFcfs

from allocopt.cluster.irmasim import homogeneous
from allocopt.cluster.multicore import Cluster, Machine, Node, Processor
from allocopt.errors import UsageError
from allocopt.simulator.multicore.contention import SharedMemory
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.rules import Rules
from allocopt.simulator.simulate import simulate
from allocopt.traces.irmasim import npb_batch
from allocopt.traces.tasks import TaskWorkload

NOT_KILLED = Rules(kill_at_limit=False)


@pytest.mark.parametrize("kind", list(ExecutionKind))
def test_serial_jobs_run_as_in_the_compiled_simulator(kind: ExecutionKind) -> None:
    machine, jobs = homogeneous(3), npb_batch(60, np.random.default_rng(4))
    made = simulate(jobs, machine, "first-high_gflops", execution=Execution(kind))
    model = SharedMemory(machine, jobs, 3.4, Execution(kind))
    for _ in range(2):
        other = simulate(jobs.workload_at(3.4), machine.platform(), PlainFcfs(), NOT_KILLED, execution=model)
        assert other.start == pytest.approx(made.start)
        assert other.end == pytest.approx(made.end)


def test_any_policy_runs_with_contention(shared_data: Path) -> None:
    machine, jobs = measured_machine(), measured_jobs(shared_data)
    made = simulate(
        jobs.workload_at(3.4), machine.platform(), "sjf", NOT_KILLED, execution=SharedMemory(machine, jobs, 3.4)
    )
    assert made.end.max() - jobs.submit[0] == pytest.approx(MEASURED_MAKESPAN_S, rel=0.05)


def test_a_parallel_job_goes_at_the_pace_of_its_slowest_task() -> None:
    kinds = Processor("quick", 1, 4.0), Processor("slow", 1, 1.0)
    machine = Machine("m", (Cluster("c", (Node("two", kinds), Node("one", kinds[:1]))),))
    whole, one = np.array([3]), np.ones(1)
    jobs = TaskWorkload("w", ("a",), 0 * one, np.array([1]), whole, 8e9 * one, one, one, one, one)
    made = simulate(
        jobs.workload_at(4.0), machine.platform(), PlainFcfs(), NOT_KILLED, execution=SharedMemory(machine, jobs, 4.0)
    )
    assert made.end.tolist() == [8.0]


def test_it_needs_nodes_and_a_speed() -> None:
    machine = random_machine(np.random.default_rng(0))
    jobs = npb_batch(2, np.random.default_rng(0))
    with pytest.raises(UsageError, match="needs a platform with nodes"):
        simulate(jobs.workload_at(1.0), 4, "fcfs", execution=SharedMemory(machine, jobs, 1.0))
    with pytest.raises(UsageError, match="the reference speed is 0, must be a positive number"):
        SharedMemory(machine, jobs, 0)
