"""Metrics against values computed by hand, second by second, and against published ones."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import workload

from allocopt.cluster.topology import FatTree, Topology, Tree
from allocopt.errors import UsageError
from allocopt.simulator.metrics import NO_TRIM, Spread, Trim, measure
from allocopt.simulator.schedule import Schedule


def schedule_of(
    jobs: list[tuple[float, float, float, int]],
    processors: int = 8,
    nodes: list[list[int]] | None = None,
    topology: Topology | None = None,
) -> Schedule:
    """Make a schedule of jobs given by submit, start, end and size, sorted by submit."""
    submit, start, end, sizes = zip(*jobs, strict=True)
    rows = [(i + 1, submit[i], end[i] - start[i] or 1, sizes[i], 1000.0) for i in range(len(jobs))]
    held = None if nodes is None else tuple(np.array(each, dtype=np.int64) for each in nodes)
    times = [np.array(each, dtype=np.float64) for each in (submit, start, end)]
    return Schedule(workload(rows), processors, *times, held, topology)


# Waits 0, 5, 20, 90; run times 10, 20, 5, 100.
FOUR = schedule_of([(0, 0, 10, 1), (5, 10, 30, 4), (10, 30, 35, 5), (10, 100, 200, 16)], 16)


def test_times_of_a_job_are_as_defined() -> None:
    times = FOUR.job_times
    assert times.wait_s.tolist() == [0, 5, 20, 90]
    assert times.response_s.tolist() == [10, 25, 25, 190]
    assert times.slowdown.tolist() == [1, 1.25, 5, 1.9]
    assert times.bounded_slowdown.tolist() == [1, 1.25, 2.5, 1.9]
    assert schedule_of([(0, 0, 1, 1)]).job_times.bounded_slowdown.tolist() == [1], "a short job that does not wait"
    # A job that had to follow another one waits from its release.
    assert replace(FOUR, release=np.array([0.0, 8.0, 30.0, 95.0])).job_times.wait_s.tolist() == [0, 2, 0, 5]


def test_run_times_are_the_recorded_ones_where_the_clock_has_rounded() -> None:
    jobs = workload([(1, 0.1, 0.2, 1, 0.7), (2, 0.1, 9.0, 1, 0.7), (3, 0.1, 9.0, 1, 9.0)])
    start = np.full(3, 0.1)
    end = np.array([0.1 + 0.2, 0.1 + 0.7, 5.1])
    assert (end - start).tolist() != [0.2, 0.7, 5.0]
    assert Schedule(jobs, 1, start, start, end).run_s.tolist() == [0.2, 0.7, 5.0]


def test_a_job_too_short_for_the_clock_has_a_slowdown_of_one() -> None:
    jobs = workload([(1, 0.0, 4.0, 1, 4.0)])
    instant = Schedule(jobs, 1, np.zeros(1), np.array([2.0**60]), np.array([2.0**60]))
    assert instant.run_s.tolist() == [4.0]
    nothing = replace(instant, start=np.array([7.0]), end=np.array([7.0]))
    assert nothing.job_times.slowdown.tolist() == [1.0]
    assert measure(replace(nothing, start=np.zeros(1), end=np.zeros(1))).machine.utilization == 0.0


def test_the_spread_is_the_usual_one() -> None:
    assert Spread.of(np.arange(21.0)) == Spread(10.0, 10.0, 19.0, 20.0)
    assert Spread.of(np.array([3.0])) == Spread(3.0, 3.0, 3.0, 3.0)


def test_starved_jobs_waited_longer_than_the_threshold() -> None:
    assert measure(FOUR, starvation_s=20).starved.tolist() == [4]
    assert measure(FOUR, starvation_s=19).starved.tolist() == [3, 4]
    assert measure(FOUR, starvation_s=19).jobs.starved == 2
    assert measure(FOUR, NO_TRIM, 100).starved.tolist() == []


def test_classes_of_size_are_powers_of_four() -> None:
    classes = measure(FOUR, starvation_s=50).by_size
    assert [(each.fewest, each.most, each.statistics.jobs) for each in classes] == [(1, 1, 1), (2, 4, 1), (5, 16, 2)]
    assert classes[2].statistics.wait_s == Spread(55.0, 55.0, pytest.approx(86.5), 90.0)
    assert classes[2].statistics.starved == 1


@given(st.lists(st.integers(1, 2**53), min_size=1, max_size=20))
def test_every_job_is_in_one_class_whose_limits_hold_it(sizes: list[int]) -> None:
    classes = measure(schedule_of([(0, 0, 1, size) for size in sizes], 2**53)).by_size
    for each in classes:
        assert each.statistics.jobs == sum(each.fewest <= size <= each.most for size in sizes)
    assert sum(each.statistics.jobs for each in classes) == len(sizes)


def test_trimmed_jobs_are_left_out_but_the_machine_is_seen_whole() -> None:
    made = measure(FOUR, Trim(0.25, 0.25), starvation_s=10)
    assert made.jobs.jobs == 2
    assert made.jobs.wait_s.mean == 12.5
    assert made.starved.tolist() == [3]
    assert [each.fewest for each in made.by_size] == [2, 5]
    assert made.machine.fragmentation is None


@pytest.mark.parametrize(("first", "last"), [(-0.1, 0), (0, -0.1), (0.5, 0.5), (1, 0), (float("nan"), 0)])
def test_a_trim_that_makes_no_sense_is_refused(first: float, last: float) -> None:
    with pytest.raises(UsageError, match="shares of jobs trimmed are"):
        Trim(first, last)


@given(st.integers(1, 1000), st.integers(0, 99), st.integers(0, 99))
def test_a_trim_leaves_out_whole_jobs_of_its_shares(jobs: int, first: int, last: int) -> None:
    if first + last < 100:
        kept = Trim(first / 100, last / 100).kept(jobs)
        assert (kept.start, kept.stop) == (first * jobs // 100, jobs - last * jobs // 100)


def slow_queue(schedule: Schedule, second: int) -> int:
    """Count the jobs that wait during a second."""
    return int(((schedule.release <= second) & (second < schedule.start)).sum())


def slow_fragmentation(schedule: Schedule, level: int, second: int) -> float | None:
    """Fragmentation during a second, group by group; None if no node is idle."""
    assert schedule.topology is not None
    assert schedule.nodes is not None
    size = schedule.topology.size
    busy = {
        node
        for job, nodes in enumerate(schedule.nodes)
        if schedule.start[job] <= second < schedule.end[job]
        for node in nodes.tolist()
    }
    group_of = schedule.topology.groups_of(np.arange(size))[level].tolist()
    idle = [node for node in range(size) if node not in busy]
    if not idle:
        return None
    squares = sum(sum(group_of[node] == group for node in idle) ** 2 for group in set(group_of))
    most, left = 0, len(idle)
    for capacity in sorted((group_of.count(group) for group in set(group_of)), reverse=True):
        most += min(left, capacity) ** 2
        left -= min(left, capacity)
    return 1 - squares / most


TREE = Tree.from_levels(
    [{"a": [0, 3], "b": [1, 2, 5], "c": [4], "d": [6, 7, 8]}, {"x": ["a", "b"], "y": ["c", "d"]}, {"top": ["x", "y"]}]
)


@st.composite
def placed(draw: st.DrawFn) -> Schedule:
    """Draw a schedule on the nodes of a small tree, several jobs on one node allowed."""
    topology = draw(st.sampled_from([FatTree(2, 2, 2), TREE]))
    jobs, nodes = [], []
    submit = 0
    for _ in range(draw(st.integers(1, 6))):
        submit += draw(st.integers(0, 3))
        start = submit + draw(st.integers(0, 4))
        nodes.append(draw(st.lists(st.integers(0, topology.size - 1), min_size=1, unique=True)))
        jobs.append((submit, start, start + draw(st.integers(1, 5)), len(nodes[-1])))
    return schedule_of(jobs, topology.size, nodes, topology)


@given(placed(), st.sampled_from([NO_TRIM, Trim(0.4, 0.0), Trim(0.2, 0.4)]))
def test_the_machine_is_measured_as_second_by_second(schedule: Schedule, trim: Trim) -> None:
    kept = trim.kept(len(schedule.workload))
    seconds = range(int(schedule.workload.submit[kept].min()), int(schedule.end[kept].max()))
    machine = measure(schedule, trim).machine
    queue = [slow_queue(schedule, second) for second in seconds]
    held = [schedule.workload.processors[(schedule.start <= i) & (i < schedule.end)].sum() for i in seconds]
    assert machine.makespan_s == len(seconds)
    assert machine.utilization == pytest.approx(np.mean(held) / schedule.processors)
    assert machine.mean_queue_length == pytest.approx(np.mean(queue))
    assert machine.max_queue_length == max(queue)
    assert machine.fragmentation is not None
    for level, mean in enumerate(machine.fragmentation):
        found = [value for second in seconds if (value := slow_fragmentation(schedule, level, second)) is not None]
        assert mean == (pytest.approx(np.mean(found)) if found else None)


def test_a_machine_that_is_always_full_has_no_fragmentation() -> None:
    full = schedule_of([(0, 0, 10, 8), (5, 10, 20, 8)], 8, [list(range(8))] * 2, FatTree(2, 2, 2))
    assert measure(full).machine.fragmentation == (None, None)


def test_hop_costs_are_those_of_the_paper_and_single_nodes_are_left_out() -> None:
    tree = FatTree(2, 2, 2)
    nodes = [[0], [2, 3], [0, 2], [0, 4], [0, 1, 2]]
    made = schedule_of([(0, i, i + 1, len(held)) for i, held in enumerate(nodes)], 8, nodes, tree)
    # Two nodes: one ordered pair each way, over n = 2. Three: 2 (2 + 4 + 4) / 3.
    expected = [2000, 4000, 6000, 20000 / 3]
    costs = made.hop_costs()
    assert costs is not None
    assert np.isnan(costs[0])
    assert costs[1:].tolist() == pytest.approx(expected)
    metrics = measure(made, hop_cost=1.0)
    assert metrics.jobs.mean_hop_cost == pytest.approx(sum(expected) / 4 / 1000)
    assert [each.statistics.mean_hop_cost for each in metrics.by_size] == [None, metrics.jobs.mean_hop_cost]
    assert FOUR.hop_costs() is None
