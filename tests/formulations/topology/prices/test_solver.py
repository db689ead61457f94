"""Bound and allocation are valid wherever the solver is cut off, and good on large windows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import optimum
from support.clocks import LooksBudget
from support.oracle import ROUNDING, OracleWindow
from support.windows import paper_window, trees, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Result
from allocopt.solving.verify import verify_result
from formulations.topology.free import solver as module
from formulations.topology.prices.solver import LARGEST_PRICING, MOST_IDLE, LeafPrices


def solved(problem: TopologyProblem, budget: Budget = Budget(), seed: int = 0) -> Result:  # noqa: B008
    result = LeafPrices().solve(problem, budget, seed)
    verify_result(problem, result)
    return result


def crowded_window(seed: int) -> TopologyProblem:
    """Jobs of 2 to 40 nodes that take 95 % of the idle nodes, about a half of 2,000."""
    rng = np.random.default_rng(seed)
    idle = np.flatnonzero(rng.random(2000) < np.repeat(rng.random(100), 20))
    sizes = rng.integers(2, 41, size=200)
    return window(FatTree(10, 10, 20), idle, sizes[np.cumsum(sizes) <= 0.95 * len(idle)].tolist())


@given(windows(most_idle=8, most_jobs=3), st.integers(1, 12))
def test_after_few_iterations_the_bound_never_passes_the_optimum(problem: TopologyProblem, iterations: int) -> None:
    result = solved(problem, Budget(iterations=iterations))
    best = optimum(problem)
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= best * (1 + 1e-9) + 1e-9
    assert result.objective >= best * (1 - 1e-9) - 1e-9


@given(windows(most_idle=8, most_jobs=3, topologies=trees(levels=4)))
def test_trees_of_four_levels_get_a_valid_bound(problem: TopologyProblem) -> None:
    result = solved(problem, Budget(iterations=40))
    assert result.bound is not None
    assert result.bound <= optimum(problem) * (1 + 1e-9) + 1e-9


@pytest.mark.slow
def test_the_known_optima_lie_between_bound_and_objective(oracle_windows: list[OracleWindow]) -> None:
    for case in oracle_windows:
        result = solved(case.problem.with_strategy(Strategy.FREE), Budget(iterations=20))
        best = case.optimum[Strategy.FREE]
        assert result.bound is not None
        assert result.objective is not None
        assert result.bound <= best + ROUNDING
        assert result.objective >= best - ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("looks", range(0, 60, 4))
def test_wherever_it_is_cut_off_allocation_and_bound_are_valid(looks: int) -> None:
    problem = paper_window(4)
    best = get_solver("exact").solve(problem, Budget(), 0).objective
    result = solved(problem, LooksBudget(looks=looks))
    assert best is not None
    assert result.objective is not None
    assert best <= result.objective * (1 + 1e-12)
    assert result.bound is None or result.bound <= best * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_crowded_windows_are_bounded_and_solved_well(seed: int) -> None:
    problem = crowded_window(seed)
    result = solved(problem, Budget(iterations=60))
    greedy = get_solver("greedy").solve(problem, Budget(), 0)
    assert result.gap is not None
    assert greedy.gap is not None
    assert result.gap < 0.02 < greedy.gap
    assert greedy.bound is not None
    assert greedy.objective is not None
    assert greedy.bound < (result.bound or 0.0) <= (result.objective or 0.0) < greedy.objective


@pytest.mark.slow
def test_without_a_time_limit_the_answer_depends_on_the_seed_alone() -> None:
    problem = crowded_window(3)
    first, again, other = (solved(problem, Budget(iterations=20), seed) for seed in (1, 1, 2))
    assert first.solution.as_dict(problem) == again.solution.as_dict(problem)
    assert first.bound == again.bound
    assert other.solution.as_dict(problem) != first.solution.as_dict(problem)


@pytest.mark.slow
def test_where_no_other_solver_is_installed_it_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Solver:
        raise UsageError(f"there is no solver {name!r}")

    problem = crowded_window(0)
    monkeypatch.setattr(module, "get_solver", nothing)
    result = solved(problem, Budget(iterations=60))
    assert result.gap is not None
    assert result.gap < 0.03


def test_what_is_too_large_is_refused() -> None:
    many = window(FatTree(1, 101, 10_000), range(MOST_IDLE + 1), [2])
    assert f"{MOST_IDLE:,}" in str(LeafPrices().refusal(many))
    large = window(FatTree(2, 20, 5_000), range(200_000), [15_000, 14_000, 13_000])
    assert f"{LARGEST_PRICING:,}" in str(LeafPrices().refusal(large))
    assert LeafPrices().refusal(paper_window(0)) is None
