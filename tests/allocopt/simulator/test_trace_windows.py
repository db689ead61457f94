from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidProblemError, InvalidSolutionError, UsageError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.window import solver_allocator, windows
from allocopt.traces.generators import uniform_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

CLUSTER = FatTree(2, 2, 3)
Window = tuple[list[int], list[tuple[str, int]]]


def first_nodes(problem: TopologyProblem) -> Allocation:
    """Give the jobs the idle nodes in order."""
    blocks = zip(problem.jobs, np.cumsum(problem.sizes), strict=True)
    return Allocation(tuple(problem.idle_nodes[end - job.nodes : end] for job, end in blocks))


def workload(*jobs: tuple[float, float, int]) -> Workload:
    """Jobs given by submit time, run time and nodes; ids count from 1."""
    submit, run, nodes = (np.array(column) for column in zip(*jobs, strict=True))
    return Workload("test", np.arange(1, len(jobs) + 1), submit, run, nodes, run)


def seen(made: Iterator[TopologyProblem]) -> list[Window]:
    return [(p.idle_nodes.tolist(), [(job.id, job.nodes) for job in p.jobs]) for p in made]


def slow_windows(jobs: Workload, size: int, period_s: float) -> Iterator[Window]:
    """Follow section III-C word by word: every period, with an explicit number of waiting periods."""
    nodes = dict(zip(jobs.ids.tolist(), jobs.processors.tolist(), strict=True))
    submit = dict(zip(jobs.ids.tolist(), jobs.submit.tolist(), strict=True))
    run = dict(zip(jobs.ids.tolist(), jobs.run.tolist(), strict=True))
    to_come, waited, ends, period = set(nodes), {}, {}, 0
    while to_come or waited:
        now = period * period_s
        ends = {node: end for node, end in ends.items() if end > now}
        for job in [job for job in to_come if submit[job] <= now]:
            waited[job] = 0
            to_come.remove(job)
        idle, selected = [node for node in range(size) if node not in ends], []
        for job in sorted(waited, key=lambda job: (-waited[job], nodes[job], submit[job], job)):
            if sum(nodes[chosen] for chosen in [*selected, job]) > len(idle):
                break
            selected.append(job)
        for job in selected:
            del waited[job]
        for job in waited:
            waited[job] += 1
        for job in [job for job in selected if nodes[job] == 1]:
            ends[idle.pop(0)] = now + run[job]
        others = [job for job in selected if nodes[job] > 1]
        if others:
            yield list(idle), [(str(job), nodes[job]) for job in others]
        for job in others:
            ends |= {idle.pop(0): now + run[job] for _ in range(nodes[job])}
        period += 1


jobs_lists = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(1, 30),
        st.one_of(st.integers(1, 3), st.integers(1, 12)),
    ),
    min_size=1,
    max_size=25,
)


@given(jobs_lists, st.sampled_from([1.0, 2.5, 7.0, 30.0]))
def test_windows_follow_the_rule_of_the_paper(jobs: list[tuple[float, float, int]], period_s: float) -> None:
    made = windows(workload(*jobs), CLUSTER, period_s, first_nodes, min_jobs=1)
    assert seen(made) == list(slow_windows(workload(*jobs), CLUSTER.size, period_s))


@given(jobs_lists, st.sampled_from([1.0, 7.0]))
def test_no_node_is_given_twice_and_every_job_once(jobs: list[tuple[float, float, int]], period_s: float) -> None:
    asked = workload(*jobs)
    starts: list[str] = []
    for problem in windows(asked, CLUSTER, period_s, first_nodes, min_jobs=1):
        assert problem.sizes.min() > 1
        assert problem.sizes.sum() <= len(problem.idle_nodes)
        starts += [job.id for job in problem.jobs]
    assert sorted(map(int, starts)) == sorted(asked.ids[asked.processors > 1].tolist())


def test_a_job_that_ends_at_a_decision_frees_its_nodes_for_it() -> None:
    made = windows(workload((0, 10, 12), (1, 5, 12)), CLUSTER, 10, first_nodes, min_jobs=1)
    assert [len(problem.idle_nodes) for problem in made] == [12, 12]


def test_a_job_that_ends_just_after_a_decision_holds_its_nodes_to_the_next() -> None:
    made = windows(workload((0, 10.5, 7), (5, 5, 2), (15, 5, 7)), CLUSTER, 10, first_nodes, min_jobs=1)
    assert seen(made)[1:] == [([7, 8, 9, 10, 11], [("2", 2)]), (list(range(12)), [("3", 7)])]


def test_one_node_jobs_stand_aside() -> None:
    made = windows(workload((0, 9, 2), (0, 9, 1), (0, 9, 1)), CLUSTER, 10, first_nodes, min_jobs=1)
    assert seen(made) == [(list(range(2, 12)), [("1", 2)])]


def test_a_large_job_at_the_head_holds_back_the_small_ones_behind_it() -> None:
    made = windows(workload((0, 30, 8), (1, 10, 8), (11, 10, 2)), CLUSTER, 10, first_nodes, min_jobs=1)
    assert [ids for _, ids in seen(made)] == [[("1", 8)], [("2", 8), ("3", 2)]]


def test_years_without_jobs_are_jumped_over() -> None:
    made = windows(workload((0, 1e9, 12), (1, 5, 2), (5e9, 5, 3)), CLUSTER, 1.0, first_nodes, min_jobs=1)
    assert [ids for _, ids in seen(made)] == [[("1", 12)], [("2", 2)], [("3", 3)]]


@pytest.mark.slow
def test_windows_are_chosen_by_number_of_jobs_and_named_in_turn() -> None:
    trace = uniform_workload(400, np.random.default_rng(5), nodes=(1, 4))

    def cut(least: int, most: int | None, skip: int) -> list[TopologyProblem]:
        return list(windows(trace, CLUSTER, 60, first_nodes, min_jobs=least, max_jobs=most, skip=skip, prefix="w"))

    every, chosen = cut(1, None, 0), cut(2, 3, 4)
    wanted = [problem for problem in every if 2 <= len(problem.jobs) <= 3][4:]
    assert [p.jobs for p in chosen] == [p.jobs for p in wanted]
    assert [p.name for p in chosen[:2]] == ["w-000", "w-001"]


def test_a_job_larger_than_the_cluster_is_an_error_not_a_stall() -> None:
    with pytest.raises(InvalidProblemError, match="job 2: asks for 13 nodes, the cluster has 12"):
        list(windows(workload((0, 1, 1), (0, 1, 13)), CLUSTER, 10, first_nodes))


@pytest.mark.parametrize(
    ("period_s", "least", "most", "skip"), [(0, 2, None, 0), (60, 0, None, 0), (60, 3, 2, 0), (60, 2, None, -1)]
)
def test_a_senseless_request_is_refused(period_s: float, least: int, most: int | None, skip: int) -> None:
    made = windows(workload((0, 1, 1)), CLUSTER, period_s, first_nodes, min_jobs=least, max_jobs=most, skip=skip)
    with pytest.raises(UsageError):
        next(made)


def test_an_allocator_that_gives_a_node_twice_is_found_out() -> None:
    def wrong(problem: TopologyProblem) -> Allocation:
        return Allocation(tuple(problem.idle_nodes[: job.nodes] for job in problem.jobs))

    with pytest.raises(InvalidSolutionError, match="job '2' gets node 0"):
        list(windows(workload((0, 1, 2), (0, 1, 3)), CLUSTER, 10, wrong))


@pytest.mark.parametrize(("solver", "strategy"), [("sequential", "scas"), ("annealing", "dcas")])
def test_an_installed_solver_advances_the_cluster_repeatably(solver: str, strategy: str) -> None:
    trace = uniform_workload(300, np.random.default_rng(2))

    def cut() -> list[Window]:
        allocate = solver_allocator(solver, strategy, 50, np.random.default_rng(7))
        return seen(islice(windows(trace, FatTree(10, 10, 10), 60, allocate, skip=20), 10))

    assert len(cut()) == 10
    assert cut() == cut()


def test_an_allocator_needs_a_strategy_that_exists() -> None:
    with pytest.raises(UsageError, match=r"'sequential' does not take none such; it takes dcas, free, scas"):
        solver_allocator("sequential", "none such", 50, np.random.default_rng(7))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trace", "cluster"),
    [
        ("tjap/data_large_1800_40.txt.gz", FatTree(10, 10, 10)),
        ("traces/CTC-SP2-1996-3.1-cln.swf.gz", FatTree(4, 9, 10)),
        ("traces/Sandia-Ross-2001-1.1-cln.swf.gz", FatTree(16, 10, 10)),
    ],
)
def test_windows_are_cut_from_real_workloads(shared_data: Path, trace: str, cluster: FatTree) -> None:
    made = list(islice(windows(read_workload(shared_data / trace), cluster, 60, first_nodes, skip=10), 5))
    assert len(made) == 5
    for problem in made:
        assert len(problem.jobs) >= 2
        assert problem.sizes.min() >= 2
