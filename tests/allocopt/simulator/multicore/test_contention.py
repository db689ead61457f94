"""The speed factor: its values, its limits, and that it never rises with what is asked for."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.multicore import MEASURED_MAKESPAN_S, measured_jobs, measured_machine, random_machine
from support.schedulers import PlainFcfs
from support.slow_multicore import slow_factor

from allocopt.cluster.irmasim import CONTENTION, irmasim_testbed
from allocopt.cluster.multicore import Cluster, ContentionConstants, Machine, Node, Processor
from allocopt.errors import UsageError
from allocopt.simulator.multicore.contention import SharedMemory, speed_factor
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.rules import Rules
from allocopt.simulator.simulate import simulate
from allocopt.traces.tasks import TaskWorkload, npb_batch

rates = st.floats(0, 2e5)
numbers = st.integers(0, 70)
sharings = st.floats(0.1, 2)
constants = st.builds(
    ContentionConstants,
    b=st.floats(-1e-3, -1e-6),
    c=st.floats(1, 1e5),
    da=st.floats(-5, 5),
    db=st.floats(0, 1e4),
    dc=st.floats(1, 1e5),
    dd=st.floats(0, 1e4),
)


@given(constants, rates, rates, numbers, sharings)
def test_it_is_that_of_the_slow_twin(k: ContentionConstants, rate: float, rest: float, n: int, sharing: float) -> None:
    assert speed_factor(rate, rest, n, k, sharing) == pytest.approx(
        slow_factor(rate, rate + rest, n, k, sharing), rel=1e-9
    )


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_at_the_floor_each_of_equal_tasks_gets_its_share(n: int) -> None:
    assert speed_factor(1e6, n * 1e6, n, CONTENTION) == pytest.approx(1 / (1 + n))
    assert speed_factor(1e6, n * 1e6, n, CONTENTION, 0.6) == pytest.approx(1 / (1 + 0.6 * n))


@given(constants, rates, rates, st.floats(0, 1e5), numbers)
def test_it_is_within_its_limits_and_does_not_rise_with_the_own_rate_or_that_of_the_others(
    k: ContentionConstants, rate: float, rest: float, more: float, n: int
) -> None:
    factor = float(speed_factor(rate, rest, n, k))
    assert 1 / (1 + n) * (1 - 1e-12) <= factor <= 1
    assert factor == 1 or rate + rest > k.c
    assert speed_factor(rate, 0.0, 0, k) == 1
    assert speed_factor(rate + more, rest, n, k) <= factor + 1e-12
    assert speed_factor(rate, rest + more, n, k) <= factor


def test_a_task_that_hardly_touches_memory_is_hardly_slowed_down() -> None:
    assert speed_factor(0.0, 1e6, 1, CONTENTION) == 1
    assert speed_factor(100.0, 60000.0, 3, CONTENTION) > 0.95


NOT_KILLED = Rules(kill_at_limit=False)


@pytest.mark.parametrize("kind", list(ExecutionKind))
def test_serial_jobs_run_as_in_the_compiled_simulator(kind: ExecutionKind) -> None:
    machine, jobs = irmasim_testbed({3.4: 3}), npb_batch(60, np.random.default_rng(4))
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
