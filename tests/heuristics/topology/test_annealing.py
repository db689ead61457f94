"""Solvers ``annealing`` and ``annealing-as-published``."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brute_force import optimum
from support.clocks import LooksBudget
from support.counts import optimum_by_counts
from support.oracle import ROUNDING, OracleWindow
from support.windows import paper_window, windows

from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result
from heuristics.topology import annealing
from heuristics.topology.annealing import Annealing, AnnealingAsPublished, Schedule

Searching = Annealing | AnnealingAsPublished
TAKEN = [(Annealing(), Strategy.DCAS), (Annealing(), Strategy.FREE), (AnnealingAsPublished(), Strategy.FREE)]


def solved(solver: Searching, problem: TopologyProblem, budget: Budget, seed: int = 0) -> Result:
    result = solver.solve(problem, budget, seed)
    verify_result(problem, result)
    return result


@pytest.mark.parametrize(("solver", "strategy"), TAKEN)
@given(problem=windows(most_idle=12, most_jobs=5), iterations=st.integers(1, 50), seed=st.integers(0, 2**63))
def test_the_answer_obeys_the_strategy_and_is_never_worse_than_sequential(
    solver: Searching, strategy: Strategy, problem: TopologyProblem, iterations: int, seed: int
) -> None:
    problem = problem.with_strategy(strategy)
    result = solved(solver, problem, Budget(iterations=iterations), seed)
    sequential = solve(problem, solver="sequential").objective
    assert result.objective is not None
    assert sequential is not None
    assert result.objective <= sequential
    assert result.stopped_by in (StopReason.ITERATIONS, StopReason.PROVED)
    assert result.status is Status.FEASIBLE or optimum_by_counts(problem) == pytest.approx(result.objective)


@settings(max_examples=30)
@given(windows(most_idle=7, most_jobs=3))
def test_long_walks_find_the_optimum_of_tiny_windows_and_never_pass_it(problem: TopologyProblem) -> None:
    problem = problem.with_strategy(Strategy.DCAS)
    hot = Annealing(hottest=50.0, coldest=0.25)
    solutions = [solved(hot, problem, Budget(iterations=3000), seed).solution for seed in range(3)]
    best = min(problem.objective(solution) for solution in solutions)
    assert best == pytest.approx(optimum(problem), rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_a_thousand_steps_come_close_to_the_proven_optima_and_never_below(oracle_windows: list[OracleWindow]) -> None:
    gaps = []
    for case in oracle_windows:
        for strategy in (Strategy.DCAS, Strategy.FREE):
            result = solved(Annealing(), case.problem.with_strategy(strategy), Budget())
            assert result.objective is not None
            assert result.objective >= case.optimum[strategy] - ROUNDING
            gaps.append(result.objective / case.optimum[Strategy.SCAS] - 1)
    assert np.mean(gaps) <= 0.015


def test_the_published_walk_is_farther_from_the_optima(oracle_windows: list[OracleWindow]) -> None:
    def mean_cost(solver: Searching) -> float:
        return float(np.mean([solved(solver, case.problem, Budget()).objective for case in oracle_windows]))

    assert mean_cost(AnnealingAsPublished()) > 1.03 * mean_cost(Annealing())


@pytest.mark.parametrize(("solver", "strategy"), TAKEN)
@pytest.mark.parametrize("looks", [0, 1, 2, 5])
def test_cut_off_anywhere_it_returns_the_best_so_far(
    solver: Searching, strategy: Strategy, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = paper_window(2, strategy)
    monkeypatch.setattr(annealing, "WALK_SLICE", 10 * len(problem.idle_nodes))
    monkeypatch.setattr(annealing, "SWAPS_SLICE", 1000)
    warm_start = Allocation.sequential(problem)
    result = solver.solve(problem, LooksBudget(looks=looks), 0, warm_start)
    verify_result(problem, result)
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.TIME_LIMIT)
    whole = solver.solve(problem, Budget(), 0, warm_start)
    assert result.incumbents[-1].objective == result.objective
    assert [i.objective for i in result.incumbents] == [i.objective for i in whole.incumbents][: len(result.incumbents)]


@pytest.mark.parametrize(
    ("solver", "strategy"), [(Annealing(steps=37), Strategy.DCAS), (Annealing(swaps=37), Strategy.FREE)]
)
def test_the_steps_of_the_options_count_where_the_budget_sets_none(solver: Annealing, strategy: Strategy) -> None:
    problem = paper_window(2, strategy)
    by_option = solved(solver, problem, Budget())
    by_budget = solved(Annealing(), problem, Budget(iterations=37))
    assert by_option.solution.as_dict(problem) == by_budget.solution.as_dict(problem)


@pytest.mark.parametrize("solver", ["annealing", "annealing-as-published", "simanneal"])
@pytest.mark.parametrize(
    "options",
    [
        {"hottest": 0.1, "coldest": 0.2},
        {"coldest": 0.0},
        {"coldest": -1.0},
        {"hottest": math.inf},
        {"hottest": math.nan},
        {"coldest": math.nan},
        {"steps": 0},
        {"steps": -5},
        {"most_removed": 0},
        {"most_removed": 101},
    ],
)
def test_an_option_out_of_range_is_refused(solver: str, options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"temperatures|steps|most_removed"):
        get_solver(solver, options)


def test_a_constant_temperature_is_a_schedule() -> None:
    assert Schedule(1.0, 1.0, 1, 1).hottest == 1.0
