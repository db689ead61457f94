"""`exact` honours rules of jobs and the weight of fragmentation: the optimum is proved, or that there is none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.side import ruled_optimum, ruled_windows
from support.windows import fat_trees, paper_window, trees, window

from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.problems.topology.placement import Groups, Placement, Preference, Segments
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, Status
from allocopt.solving.verify import verify_result
from formulations.topology.free import solver as module
from formulations.topology.free.solver import ExactFree

SHALLOW = fat_trees | trees(levels=1) | trees(levels=2) | trees(levels=3)


def solved(problem: TopologyProblem, budget: Budget = Budget()) -> Result:  # noqa: B008 (immutable)
    result = ExactFree().solve(problem, budget, 0)
    verify_result(problem, result)
    return result


@given(ruled_windows(most_idle=9, most_jobs=4, topologies=SHALLOW))
def test_the_optimum_is_proved_or_that_there_is_none(problem: TopologyProblem) -> None:
    result = solved(problem)
    best = ruled_optimum(problem)
    if best is None:
        assert result.status is Status.INFEASIBLE
        assert result.solution is result.objective is result.bound is None
    else:
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.fixture
def nothing_to_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody look for allocations, so that the layers have to find one."""
    monkeypatch.setattr(module, "_improve", lambda *_: None)
    monkeypatch.setattr(Allocation, "trivial", lambda _: None)


@pytest.mark.usefixtures("nothing_to_begin_with")
@given(ruled_windows(most_idle=9, most_jobs=4, topologies=SHALLOW))
def test_without_an_allocation_to_begin_with_the_layers_find_the_best_one(problem: TopologyProblem) -> None:
    result = solved(problem)
    best = ruled_optimum(problem)
    if best is None:
        assert result.status is Status.INFEASIBLE
    else:
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_two_jobs_that_each_need_the_only_large_pod_are_infeasible() -> None:
    problem = window(FatTree(2, 2, 4), range(1, 12), [5, 4])
    rules = Placement(within="pod", only_in=(Groups("pod", (0,)),))
    problem = replace(problem, jobs=tuple(Job(job.id, job.nodes, rules) for job in problem.jobs))
    assert solved(problem).status is Status.INFEASIBLE


@pytest.mark.parametrize("seed", range(4))
def test_rules_on_windows_of_the_paper_are_kept_to_proof(seed: int) -> None:
    problem = paper_window(seed)
    rules = [
        Placement(within="pod"),
        Placement(prefer=Preference("leaf", 3000.0)),
        Placement(not_in=(Groups(2, (0, 3)),)),
    ]
    jobs = [Job(job.id, job.nodes, rules[index % 3]) for index, job in enumerate(problem.jobs)]
    result = solved(replace(problem, jobs=tuple(jobs)), Budget(30.0))
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)


@given(ruled_windows(most_idle=9, most_jobs=4, topologies=SHALLOW), st.integers(1, 12))
def test_cut_off_anywhere_the_bound_is_valid(problem: TopologyProblem, iterations: int) -> None:
    result = solved(problem, Budget(iterations=iterations))
    best = ruled_optimum(problem)
    if best is None:
        assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert result.status is not Status.INFEASIBLE
    assert result.bound is None or result.bound <= best * (1 + 1e-9) + 1e-9


@pytest.mark.usefixtures("nothing_to_begin_with")
def test_jobs_in_segments_may_share_two_leaves() -> None:
    # Three and two of five nodes in both leaves: the only way, and no forest.
    problem = window(FatTree(1, 2, 5), range(10), [6, 4])
    segments = (Segments(3, "leaf"), Segments(2, "leaf"))
    jobs = [replace(job, placement=Placement(segments=s)) for job, s in zip(problem.jobs, segments, strict=True)]
    result = solved(replace(problem, jobs=tuple(jobs)))
    assert result.status is Status.OPTIMAL


@given(ruled_windows(most_idle=8, most_jobs=3, topologies=trees(levels=4)))
def test_on_trees_of_four_levels_bound_and_verdict_are_valid(problem: TopologyProblem) -> None:
    result = solved(problem)
    best = ruled_optimum(problem)
    if best is None:
        assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
    else:
        assert result.status is not Status.INFEASIBLE
        assert result.bound is not None
        assert result.bound <= best * (1 + 1e-9) + 1e-9
