"""Solver ``auto``: never worse than its stages, its bound valid for the strategy asked for."""

import pytest
from hypothesis import given
from support.brute_force import optimum
from support.clocks import LooksBudget, ScriptedBudget
from support.oracle import ROUNDING, OracleWindow
from support.windows import paper_window, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.kind import kind_of
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.kind import FEW_STEPS
from allocopt.solving import auto as module
from allocopt.solving.auto import Auto
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.run import Run
from allocopt.solving.verify import verify_result

BUDGET = Budget(iterations=200)


def solved(problem: TopologyProblem, budget: Budget = BUDGET, seed: int = 3) -> Result:
    result = Auto().solve(problem, budget, seed)
    verify_result(problem, result)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("window_seed", range(6))
def test_it_is_never_worse_than_any_of_its_stages(strategy: Strategy, window_seed: int) -> None:
    problem = paper_window(window_seed, strategy)
    result = solved(problem)
    assert result.objective is not None
    best = Allocation.sequential(problem)
    for stage in kind_of(problem).stages(problem):
        asked = strategy if stage.strategy is None else Strategy(stage.strategy)
        if list(Strategy).index(asked) > list(Strategy).index(strategy):
            continue
        same = asked is strategy
        answer = get_solver(stage.solvers[0]).solve(problem.with_strategy(asked), BUDGET, 3, best if same else None)
        assert answer.objective is not None
        assert result.objective <= answer.objective + 1e-9
        if answer.objective < problem.objective(best):
            best = answer.solution


@pytest.mark.parametrize("strategy", list(Strategy))
@given(problem=windows(most_idle=7, most_jobs=3))
def test_the_optimum_lies_between_bound_and_objective(strategy: Strategy, problem: TopologyProblem) -> None:
    problem = problem.with_strategy(strategy)
    result = solved(problem)
    best = optimum(problem)
    assert result.objective is not None
    assert result.objective >= best * (1 - 1e-9) - 1e-9
    assert result.bound is None or result.bound <= best * (1 + 1e-9) + 1e-9
    if strategy is Strategy.SCAS or result.status is Status.OPTIMAL:
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_on_proven_windows_bound_and_objective_enclose_the_optimum(oracle_windows: list[OracleWindow]) -> None:
    for case in oracle_windows:
        for strategy, best in case.optimum.items():
            result = solved(case.problem.with_strategy(strategy))
            assert result.bound is not None
            assert result.objective is not None
            assert result.bound <= best + ROUNDING
            assert result.objective >= best - ROUNDING
            if strategy is Strategy.SCAS:
                assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("looks", range(4))
def test_cut_off_between_two_stages_it_is_valid(strategy: Strategy, looks: int) -> None:
    problem = paper_window(1, strategy)
    result = solved(problem, LooksBudget(looks=looks))
    stages = len(kind_of(problem).stages(problem))
    if looks < stages and result.status is not Status.OPTIMAL:
        assert result.stopped_by is StopReason.TIME_LIMIT
    assert result.objective is not None
    sequential = problem.objective(Allocation.sequential(problem))
    assert result.objective <= sequential
    assert looks > 0 or (result.status, result.objective) == (Status.FEASIBLE, sequential)


@pytest.mark.parametrize("strategy", [Strategy.DCAS, Strategy.FREE])
def test_a_window_that_a_stage_refuses_is_left_to_the_others(strategy: Strategy) -> None:
    sizes = list(range(1, 17))
    problem = window(FatTree(10, 10, 10), range(0, 1000, 3), sizes, strategy=strategy)
    assert get_solver("dp").refusal(problem) is not None
    result = solved(problem, Budget(iterations=20))
    assert result.objective is not None
    assert result.objective <= problem.objective(Allocation.sequential(problem))


def test_a_proof_of_an_early_stage_ends_it() -> None:
    # A single job that fits into a leaf: greedy proves it under the widest strategy.
    result = solved(window(FatTree(2, 2, 4), [1, 4, 5, 6, 7, 9], [4]))
    assert (result.status, result.stopped_by) == (Status.OPTIMAL, StopReason.PROVED)


@pytest.mark.parametrize(
    ("limit_s", "asked"),
    [(0.009, [("lns", 0.009, None)]), (0.011, [("lns", 0.0055, FEW_STEPS), ("exact", 0.011, None)])],
)
def test_a_stage_gets_all_the_time_where_no_other_one_would_be_left_enough(
    limit_s: float, asked: list[tuple[str, float, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = []

    def ask(solver: Solver, _asked: Problem, budget: Budget, _seed: int, _problem: Problem, run: Run) -> StopReason:
        budgets.append((solver.name, budget.seconds, budget.iterations))
        run.clock.stopped = budget.iterations is None
        return StopReason.TIME_LIMIT

    monkeypatch.setattr(module, "ask", ask)
    solved(paper_window(1), ScriptedBudget(limit_s))
    assert budgets == asked


def test_a_stage_after_one_that_may_take_all_the_time_waits_for_its_own_kernels() -> None:
    problem = window(FatTree(2, 2, 4), range(12), [4, 3, 2])
    first, proof, last = kind_of(problem).stages(problem)
    told = set(Auto().kernels(problem))
    assert told >= set(get_solver(first.solvers[0]).kernels(problem))
    assert told >= set(get_solver(proof.solvers[0]).kernels(problem))
    assert not told >= set(get_solver(last.solvers[0]).kernels(problem))
