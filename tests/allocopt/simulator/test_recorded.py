"""What a site did itself, as a schedule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.simulator.metrics import is_overloaded, measure
from allocopt.simulator.recorded import on_held_nodes
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.traces.workload import Workload

Held = tuple[int, int, set[int]]


def schedule(jobs: list[Held]) -> Schedule:
    start = np.array([float(start) for start, _, _ in jobs])
    run = np.array([float(run) for _, run, _ in jobs])
    sizes = np.array([len(nodes) for *_, nodes in jobs])
    workload = Workload("made", np.arange(len(jobs)), np.zeros(len(jobs)), run, np.maximum(sizes, 1), run)
    nodes = tuple(np.array(sorted(nodes), dtype=np.int64) for *_, nodes in jobs)
    return Schedule(workload, 6, np.zeros(len(jobs)), start, start + run, nodes)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.sets(st.integers(0, 5))), min_size=1, max_size=12))
def test_jobs_on_held_nodes_are_those_that_a_pair_by_pair_check_finds(jobs: list[Held]) -> None:
    def has_company(job: int) -> bool:
        start, _, nodes = jobs[job]
        others = (other for number, other in enumerate(jobs) if number != job)
        return any(first <= start < first + run and nodes & held for first, run, held in others)

    assert on_held_nodes(schedule(jobs)).tolist() == [has_company(job) for job in range(len(jobs))]


@pytest.mark.parametrize(("load", "grows"), [(0.7, False), (0.9, False), (1.2, True), (2.0, True)])
def test_a_queue_grows_on_a_machine_that_is_asked_for_more_than_it_has(load: float, grows: bool) -> None:
    rng = np.random.default_rng(0)
    run, size = rng.exponential(3600.0, 4000), rng.integers(1, 9, 4000)
    submit = np.cumsum(rng.exponential(float((run * size).mean()) / (64 * load), 4000))
    workload = Workload("random", np.arange(4000), submit, run, size, run)
    assert is_overloaded(measure(simulate(workload, 64, as_scheduler("easy"))).machine.backlog) is grows
