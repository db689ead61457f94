"""Greedy keeps to the rules of the jobs, its bound holds, and what it calls infeasible is."""

import pytest
from hypothesis import given
from support.side import ruled_optimum, ruled_windows

from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import Status
from allocopt.solving.verify import verify_result
from heuristics.topology.greedy import Greedy


@given(ruled_windows())
def test_the_optimum_lies_between_its_bound_and_its_cost(problem: TopologyProblem) -> None:
    result = Greedy().solve(problem, Budget(), 0)
    verify_result(problem, result)
    best = ruled_optimum(problem)
    if best is None:
        assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert result.status is not Status.INFEASIBLE
    assert result.bound is not None
    assert result.bound <= best * (1 + 1e-9) + 1e-9
    assert result.status is not Status.UNKNOWN or result.objective is None
    if result.objective is not None:
        assert result.objective >= best * (1 - 1e-9) - 1e-9


@given(ruled_windows(most_jobs=1))
def test_a_job_that_is_alone_gets_the_best_nodes_that_its_rules_allow(problem: TopologyProblem) -> None:
    result = Greedy().solve(problem, Budget(), 0)
    best = ruled_optimum(problem)
    if best is None:
        assert result.status is Status.INFEASIBLE
    else:
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)
