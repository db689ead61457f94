"""What a site did itself, as a schedule."""

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.named import NamedTree, placed_tree
from allocopt.cluster.request import Request
from allocopt.cluster.topology import Tree, hop_costs
from allocopt.simulator.metrics import is_overloaded, measure
from allocopt.simulator.recorded import Record, on_held_nodes
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.traces.reading import read_workload
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


@pytest.mark.parametrize(("load", "overloaded"), [(0.7, False), (0.9, False), (1.2, True), (2.0, True)])
def test_a_machine_that_is_asked_for_more_than_it_has_is_overloaded(load: float, overloaded: bool) -> None:
    rng = np.random.default_rng(0)
    run, size = rng.exponential(3600.0, 4000), rng.integers(1, 9, 4000)
    submit = np.cumsum(rng.exponential(float((run * size).mean()) / (64 * load), 4000))
    workload = Workload("random", np.arange(4000), submit, run, size, run)
    assert is_overloaded(measure(simulate(workload, 64, as_scheduler("easy"))).machine.backlog) is overloaded


LEAVES = NamedTree(Tree(np.array([[0, 0, 1, 1, 2, 2]]), (("a", "b", "c"),), (2, 4)), tuple("012345"))
JOBS = st.lists(
    st.tuples(st.integers(0, 150), st.integers(1, 200), st.sets(st.integers(0, 5), min_size=1, max_size=4)),
    min_size=1,
    max_size=6,
)


def record_of(jobs: list[Held], names: list[str] | None = None, cluster: NamedTree = LEAVES, cores: int = 1) -> Record:
    made = schedule(jobs).workload
    start = np.array([float(start) for start, _, _ in jobs])
    lists = names or [",".join(map(str, sorted(nodes))) for *_, nodes in jobs]
    columns = (made.ids, made.submit, made.run, made.processors, made.estimate)
    workload = Workload("made", *columns, recorded_start=start, recorded_nodes=np.array(lists, dtype=object))
    record = Record.of(workload, cluster, np.full(6, cores))
    assert record is not None
    return record


def cost(*chosen: set[int] | tuple[int, ...]) -> float:
    return float(hop_costs(LEAVES.tree, 1000.0, [np.array(sorted(nodes)) for nodes in chosen]).sum())


@given(JOBS, st.sampled_from([1, 2]))
def test_regret_of_a_start_is_what_the_best_of_the_nodes_with_processors_left_saves(
    jobs: list[Held], cores: int
) -> None:
    chosen = least = judged = 0.0
    for number, (start, _, nodes) in enumerate(jobs):
        others = [held for first, run, held in jobs[:number] + jobs[number + 1 :] if first <= start < first + run]
        free = {node for node in range(6) if sum(node in held for held in others) < cores}
        if len(nodes) > 1 and nodes <= free:
            judged += 1
            chosen += cost(nodes)
            least += min(map(cost, combinations(sorted(free), len(nodes))))
    found = record_of(jobs, cores=cores).regret()
    assert (found.judged, found.proved) == (judged, judged)
    assert (found.chosen, found.least) == (pytest.approx(chosen), pytest.approx(least))
    assert found.share == pytest.approx(chosen / least - 1 if least else 0.0)


@given(JOBS)
def test_regret_of_a_minute_is_never_below_what_one_job_alone_could_save(jobs: list[Held]) -> None:
    found = record_of(jobs).regret_by_minute()
    assert found.proved == found.judged
    assert found.least <= found.chosen + 1e-6


def test_starts_of_a_minute_are_judged_together() -> None:
    # Each has its nodes in two leaves, and none can do better alone: the other has the rest.
    apart: list[Held] = [(0, 100, {0, 2}), (0, 100, {1, 3}), (0, 100, {4, 5})]
    assert record_of(apart).regret().share == 0.0
    found = record_of(apart).regret_by_minute()
    best = min(
        cost(one, other, {4, 5})
        for one, other in product(combinations(range(4), 2), repeat=2)
        if not set(one) & set(other)
    )
    assert (found.judged, found.best) == (1, 0)
    assert (found.chosen, found.least) == (cost({0, 2}, {1, 3}, {4, 5}), best)
    # A minute later they are not.
    assert record_of([apart[0], (60, 100, {1, 3}), apart[2]]).regret_by_minute().chosen == cost({0, 2}, {4, 5})


def test_the_trees_of_a_forest_are_not_left() -> None:
    forest = NamedTree(LEAVES.tree, LEAVES.nodes, is_joined=False)
    within = record_of([(0, 10, {0, 1}), (20, 10, {0, 2})], cluster=forest)
    assert (within.regret().judged, within.regret().best) == (1, 1)


def test_nodes_that_the_topology_does_not_know_are_counted_and_named() -> None:
    record = record_of([(0, 9, {0, 1}), (0, 9, {2}), (9, 9, {3, 4})], ["0,1", "2,x[1-4]", "gone"])
    assert record.unknown == ("x1", "x2", "x3", "x4", "gone")
    assert "2 recorded jobs ran on 5 nodes that are not in the topology (x1, x2, x3, ...)" in record.remarks()[0]
    assert [len(nodes) for nodes in record.schedule.nodes or ()] == [2, 1, 0]
    assert record.several.tolist() == [0]


def test_a_record_is_measured_as_a_simulation_is() -> None:
    record = record_of([(10, 90, {0, 1}), (40, 60, {2, 4})])
    found = measure(record.schedule)
    assert found.jobs.wait_s.mean == 25.0
    assert found.jobs.mean_hop_cost == pytest.approx((cost({0, 1}) + cost({2, 4})) / 2)
    assert found.machine.utilization == pytest.approx((2 * 90 + 2 * 60) / (6 * 100))
    without = Record.of(record.schedule.workload.subset(slice(0)), LEAVES, np.ones(6, dtype=int))
    assert without is None


def test_jobs_without_a_start_are_left_out_and_counted() -> None:
    made = record_of([(10, 90, {0, 1}), (40, 60, {2, 4})]).schedule.workload
    start = np.array([np.nan, 40.0])
    columns = (made.ids, made.submit, made.run, made.processors, made.estimate)
    record = Record.of(Workload("made", *columns, recorded_start=start), LEAVES, np.ones(6, dtype=int))
    assert record is not None
    assert (len(record.schedule.workload), record.schedule.nodes) == (1, None)
    assert record.remarks()[0] == "1 jobs have no recorded start and are left out of the record"
    assert measure(record.schedule).jobs.mean_hop_cost is None


def test_every_start_of_wagap_on_several_nodes_is_judged_but_one(shared_data: Path) -> None:
    trace = read_workload(shared_data / "sites" / "jobs" / "wagap-2013.swf.gz", dependencies=False)
    names = sorted({name for text in set(trace.recorded_nodes) for name in expand_hostlist(text)})
    cluster = placed_tree({name: ("zewura" if name < "1250" else "zegox",) for name in names})
    record = Record.of(trace, cluster, np.array([80 if name < "1250" else 12 for name in cluster.nodes]))
    assert record is not None
    assert (len(record.strangers), len(record.several), len(record.alone)) == (17_898, 334, 57)
    found = record.regret()
    assert (found.judged, found.proved) == (333, 333)
    assert found.chosen >= found.least


def test_jobs_of_a_trace_in_nodes_hold_what_they_asked_for_on_nodes_that_they_share() -> None:
    made = schedule([(0, 100, {0, 1}), (0, 100, {2})]).workload
    asked = np.array([Request(10, 2, 2), Request(4, is_exclusive=True)], dtype=object)
    columns = (made.ids, made.submit, made.run, made.processors, made.estimate)
    lists = np.array(["0,1", "2"], dtype=object)
    trace = Workload("made", *columns, requests=asked, recorded_start=made.submit, recorded_nodes=lists)
    record = Record.of(trace, LEAVES, np.full(6, 8))
    assert record is not None
    assert measure(record.schedule).machine.utilization == pytest.approx((10 + 8) / (6 * 8))
