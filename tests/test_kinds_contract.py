"""What every installed solver of knapsack and of co-allocation problems keeps to."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.coallocations import best_value as best_coallocation
from support.knapsacks import best_value as best_selection

from allocopt.errors import MissingPackageError
from allocopt.problems.base import Problem
from allocopt.problems.coallocation.generate import synthetic_coallocation
from allocopt.problems.instances import read_instances
from allocopt.problems.knapsack import Reward
from allocopt.problems.knapsack.generate import synthetic_knapsack
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Promise, Solver
from allocopt.solving.registry import get_solver, solver_names
from allocopt.solving.result import EQUAL_RELATIVE, Incumbent, Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify, verify_result

pytestmark = pytest.mark.slow

FOREIGN = frozenset({"auto", "cp-sat", "highs", "scip"})
"""Solvers whose search may be another package's: a seed fixes their objective, not their solution."""

KINDS = {"knapsack": best_selection, "coallocation": best_coallocation}
"""The kinds, and what finds the best of all solutions of each."""


Key = tuple[str, str]
"""Kind and name of a solver."""


def installed() -> dict[Key, Solver]:
    """Return all solvers of these kinds that can run here, by name."""
    solvers = {}
    for kind in KINDS:
        for name in solver_names(kind):
            with suppress(MissingPackageError):
                solver = get_solver(name, None, kind)
                if solver.is_available():
                    solvers[kind, name] = solver
    return solvers


SOLVERS = installed()
SHIPPED = tuple(read_instances([Path("@knapsacks"), Path("@coallocations")]))
LARGER = (
    *(
        synthetic_knapsack(f"{reward}-{slots}", np.random.default_rng(seed), 300, 20, reward.value, slots=slots)
        for seed, (reward, slots) in enumerate([(reward, slots) for reward in Reward for slots in (0, 3)])
    ),
    *(synthetic_coallocation(f"guests-{most}", np.random.default_rng(most), 8, 6, max_guests=most) for most in (1, 3)),
)
FEW = tuple(problem for problem in SHIPPED if problem.name in ("tiny-means", "tiny-one-guest"))


def best_value(problem: Any) -> float:
    """Largest objective of all solutions."""
    return KINDS[problem.kind](problem)


def takes_it(solver: Solver, problem: Problem) -> bool:
    """Whether a solver takes a problem of its kind and size."""
    return solver.kind == problem.kind and solver.takes(problem) and solver.refusal(problem) is None


def cases(problems: Sequence[Problem], promise: Promise | None = None) -> Sequence[object]:
    """All solvers (with a promise) on all problems that they take."""
    return [
        pytest.param(name, problem, id=f"{name[1]}-{problem.name}")
        for name, solver in SOLVERS.items()
        for problem in problems
        if (promise is None or promise in solver.capabilities.promises) and takes_it(solver, problem)
    ]


def solved(name: Key, problem: Problem, budget: Budget = Budget(60.0), seed: int = 0) -> Result:  # noqa: B008
    result = SOLVERS[name].solve(problem, budget, seed)
    verify_result(problem, result)
    return result


@cache
def best_found(problem: Problem) -> Result:
    """Return what to begin with."""
    return solve(problem, solver="auto", time_limit=60.0)


def assert_consistent(problem: Problem, result: Result) -> None:
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.objective == verify(problem, result.solution)
    proved = result.gap is not None and result.gap <= EQUAL_RELATIVE
    assert (result.status is Status.OPTIMAL) is proved
    assert result.bound is None or result.bound >= result.objective


def test_the_solvers_of_the_design_are_there() -> None:
    assert {"assignment", "auto", "cp-sat", "dp", "greedy", "highs", "scip", "static-50"} <= {
        name for _, name in SOLVERS
    }


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED + LARGER))
def test_the_answer_is_valid_and_what_is_said_of_it_consistent(name: Key, problem: Problem) -> None:
    told: list[Incumbent] = []
    result = solve(problem, solver=SOLVERS[name], time_limit=60.0, seed=5, on_incumbent=told.append)
    assert_consistent(problem, result)
    assert tuple(told) == result.incumbents
    assert told[-1].objective == result.objective
    for before, after in pairwise(told):
        assert after.objective > before.objective
    assert (result.solver, result.seed) == (name[1], 5)
    promises = SOLVERS[name].capabilities.promises
    assert Promise.BOUND not in promises or result.bound is not None
    assert Promise.EXACT not in promises or result.status is Status.OPTIMAL


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED))
def test_the_optimum_of_all_solutions_lies_between_objective_and_bound(name: Key, problem: Problem) -> None:
    result = solved(name, problem)
    best = best_value(problem)
    assert result.objective is not None
    assert result.objective <= best + 1e-9 * abs(best)
    assert result.bound is None or result.bound >= best - 1e-9 * abs(best)
    if Promise.EXACT in SOLVERS[name].capabilities.promises:
        assert result.objective == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("problem", SHIPPED + LARGER, ids=lambda problem: problem.name)
def test_all_exact_solvers_agree(problem: Problem) -> None:
    exact = [
        solved(name, problem)
        for name, solver in SOLVERS.items()
        if Promise.EXACT in solver.capabilities.promises and takes_it(solver, problem)
    ]
    assert len(exact) >= 3
    assert {result.status for result in exact} == {Status.OPTIMAL}
    assert [result.objective for result in exact] == pytest.approx([exact[0].objective] * len(exact), rel=1e-9)


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED + LARGER[:2] + LARGER[-1:]))
def test_the_same_seed_gives_the_same_answer(name: Key, problem: Problem) -> None:
    first, again = (solved(name, problem, Budget(60.0), seed=7) for _ in range(2))
    assert again.objective == pytest.approx(first.objective, rel=1e-9)
    if name[1] not in FOREIGN:
        assert again.solution == first.solution


@pytest.mark.parametrize("seconds", [1e-9, 1e-3])
@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED + LARGER))
def test_a_limit_that_is_too_short_still_gives_a_valid_answer(name: Key, problem: Problem, seconds: float) -> None:
    assert_consistent(problem, solved(name, problem, Budget(seconds)))


@pytest.mark.parametrize(("name", "problem"), cases(SHIPPED))
def test_a_warm_start_is_never_made_worse(name: Key, problem: Problem) -> None:
    best = best_found(problem)
    result = SOLVERS[name].solve(problem, Budget(1e-3), 0, best.solution)
    verify_result(problem, result)
    assert result.objective is not None
    assert best.objective is not None
    assert result.objective >= best.objective


@pytest.mark.parametrize(("name", "problem"), cases(FEW))
def test_ctrl_c_gives_the_best_so_far(name: Key, problem: Problem) -> None:
    def interrupt(incumbent: Incumbent) -> None:
        raise KeyboardInterrupt

    result = SOLVERS[name].solve(problem, Budget(60.0), 0, None, interrupt)
    verify_result(problem, result)
    assert result.stopped_by is StopReason.INTERRUPTED
    assert len(result.incumbents) == 1


@pytest.mark.parametrize(("name", "problem"), cases(FEW + LARGER[:1]))
def test_an_exact_solver_stops_at_the_gap_asked_for(name: Key, problem: Problem) -> None:
    result = solved(name, problem, Budget(60.0, gap=0.5))
    if Promise.EXACT in SOLVERS[name].capabilities.promises:
        assert result.gap is not None
        assert result.gap <= 0.5


@pytest.mark.parametrize(("name", "problem"), cases(FEW))
def test_a_solver_prints_nothing_on_stdout(name: Key, problem: Problem, capfd: pytest.CaptureFixture[str]) -> None:
    solved(name, problem)
    assert capfd.readouterr().out == ""
