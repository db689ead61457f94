"""The front holds no dominated allocation, and all corners of the convex hull that the weights can tell apart."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.brute_force import free_allocations
from support.side import ruled_windows
from support.windows import paper_window, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidSolutionError, UsageError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.placement import Placement
from allocopt.solving.verify import verify
from allocopt.topology import pareto_front

WEIGHTS = (0.0, 0.01, 0.3, 1.0, 4.0, 100.0)


def every_pair(problem: TopologyProblem) -> list[tuple[float, float]]:
    """Both objectives of all allocations."""
    plain, pairs = replace(problem, fragmentation_weight=0.0), set()
    for owners in free_allocations(problem):
        allocation = Allocation.of_owners(problem, np.array(owners))
        try:
            pairs.add((verify(plain, allocation), problem.fragmentation(allocation)))
        except InvalidSolutionError:
            continue
    return sorted(pairs)


@settings(max_examples=25, deadline=None)
@given(windows(most_idle=7, most_jobs=2) | ruled_windows(most_idle=7, most_jobs=2))
def test_every_point_is_on_the_front_of_all_allocations(problem: TopologyProblem) -> None:
    pairs = every_pair(problem)
    front = pareto_front(problem, WEIGHTS, solver="exact", time_limit=None)
    assert bool(front) is bool(pairs)
    for weight in WEIGHTS[1:]:
        best = min((cost + weight * left for cost, left in pairs), default=None)
        if best is not None and all(point.proved for point in front):
            found = min(point.cost + weight * point.fragmentation for point in front)
            assert found == pytest.approx(best, rel=1e-6, abs=1e-6)
    for point in front:
        slack = 1e-6 * max(1.0, point.cost, point.fragmentation)
        better = [pair for pair in pairs if pair[0] < point.cost - slack and pair[1] < point.fragmentation - slack]
        assert not better


@pytest.mark.slow
def test_on_a_window_of_the_paper_the_front_trades_cost_for_fragmentation() -> None:
    front = pareto_front(paper_window(0), WEIGHTS, solver="lns", time_limit=0.2)
    assert len(front) >= 2
    costs, left = [point.cost for point in front], [point.fragmentation for point in front]
    assert costs == sorted(costs)
    assert left == sorted(left, reverse=True)
    assert len(set(costs)) == len(set(left)) == len(front)


def test_without_an_allocation_the_front_is_empty() -> None:
    problem = window(FatTree(2, 2, 4), range(16), [5])
    job = replace(problem.jobs[0], placement=Placement(within="leaf"))
    assert pareto_front(replace(problem, jobs=(job,)), [0.0, 1.0]) == ()


def test_a_front_needs_a_weight_and_a_solver_that_honours_it() -> None:
    with pytest.raises(UsageError, match="at least one weight"):
        pareto_front(paper_window(0), [])
    with pytest.raises(UsageError, match="'best-fit' does not take placement rules and fragmentation weights"):
        pareto_front(paper_window(0), [1.0], solver="best-fit")
