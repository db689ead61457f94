"""What every installed solver of co-allocation problems keeps to."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.coallocations import best_value

from allocopt.cli.reading import read_instances
from allocopt.errors import MissingPackageError
from allocopt.problems.coallocation.problem import CoallocationProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Promise, Solver
from allocopt.solving.registry import get_solver, solver_names
from allocopt.solving.result import EQUAL_RELATIVE, Incumbent, Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify, verify_result
from allocopt.traces.coallocations import synthetic_coallocation

FOREIGN = frozenset({"auto", "cp-sat", "highs", "scip"})
"""Solvers whose search may be another package's: a seed fixes their objective, not their placements."""


def installed() -> dict[str, Solver]:
    """Return all solvers of co-allocation problems that can run here, by name."""
    solvers = {}
    for name in solver_names():
        try:
            solver = get_solver(name)
        except MissingPackageError:
            continue
        if solver.is_available() and "coallocation" in solver.capabilities.kinds:
            solvers[name] = solver
    return solvers


SOLVERS = installed()
SHIPPED: tuple[CoallocationProblem, ...] = tuple(read_instances([Path("@coallocations")]))  # type: ignore[arg-type]
LARGER = tuple(
    synthetic_coallocation(8, 6, np.random.default_rng(most), max_guests=most, name=f"guests-{most}") for most in (1, 3)
)


def cases(problems: Sequence[CoallocationProblem]) -> Sequence[object]:
    """All solvers on all problems that they take."""
    return [
        pytest.param(name, problem, id=f"{name}-{problem.name}")
        for name, solver in SOLVERS.items()
        for problem in problems
        if solver.refusal(problem) is None
    ]


def solved(name: str, problem: CoallocationProblem, budget: Budget = Budget(60.0), seed: int = 0) -> Result:  # noqa: B008
    result = SOLVERS[name].solve(problem, budget, seed)
    verify_result(problem, result)
    return result


def assert_consistent(problem: CoallocationProblem, result: Result) -> None:
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.objective == verify(problem, result.solution)
    proved = result.gap is not None and result.gap <= EQUAL_RELATIVE
    assert (result.status is Status.OPTIMAL) is proved


def test_the_solvers_of_the_design_are_there() -> None:
    assert {"assignment", "auto", "cp-sat", "greedy", "highs", "scip", "static-50"} <= set(SOLVERS)


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED + LARGER))
def test_the_answer_is_valid_and_what_is_said_of_it_consistent(name: str, problem: CoallocationProblem) -> None:
    told: list[Incumbent] = []
    result = solve(problem, solver=SOLVERS[name], time_limit=60.0, seed=5, on_incumbent=told.append)
    assert_consistent(problem, result)
    assert tuple(told) == result.incumbents
    assert all(after.objective > before.objective for before, after in pairwise(told))
    promises = SOLVERS[name].capabilities.promises
    assert Promise.BOUND not in promises or result.bound is not None
    assert Promise.EXACT not in promises or result.status is Status.OPTIMAL


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED))
def test_the_optimum_of_all_solutions_lies_between_objective_and_bound(name: str, problem: CoallocationProblem) -> None:
    result, best = solved(name, problem), best_value(problem)
    assert result.objective is not None
    assert result.objective <= best + 1e-9 * abs(best)
    assert result.bound is None or result.bound >= best - 1e-6 * abs(best)
    if Promise.EXACT in SOLVERS[name].capabilities.promises:
        assert result.objective == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED + LARGER))
def test_the_same_seed_gives_the_same_answer(name: str, problem: CoallocationProblem) -> None:
    first, again = (solved(name, problem, seed=7) for _ in range(2))
    assert again.objective == pytest.approx(first.objective, rel=1e-9)
    if name not in FOREIGN:
        assert again.solution == first.solution


@pytest.mark.parametrize("seconds", [1e-9, 1e-3])
@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED + LARGER))
def test_a_limit_that_is_too_short_still_gives_a_valid_answer(
    name: str, problem: CoallocationProblem, seconds: float
) -> None:
    assert_consistent(problem, solved(name, problem, Budget(seconds)))


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED))
def test_a_warm_start_is_never_made_worse(name: str, problem: CoallocationProblem) -> None:
    best = solve(problem, solver="auto", time_limit=60.0)
    result = SOLVERS[name].solve(problem, Budget(1e-3), 0, best.solution)
    verify_result(problem, result)
    assert result.objective is not None
    assert best.objective is not None
    assert result.objective >= best.objective


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED[:1]))
def test_ctrl_c_gives_the_best_so_far(name: str, problem: CoallocationProblem) -> None:
    def interrupt(incumbent: Incumbent) -> None:
        raise KeyboardInterrupt

    result = SOLVERS[name].solve(problem, Budget(60.0), 0, None, interrupt)
    verify_result(problem, result)
    assert result.stopped_by is StopReason.INTERRUPTED
    assert len(result.incumbents) == 1
