"""The contract of solvers, as checks that a package with its own solver can run among its tests."""

import io
import pickle
import random
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from allocopt.problems.base import Problem
from allocopt.problems.instances import object_from_problem, shipped_problems
from allocopt.problems.kind import get_kind, kind_names, kind_of
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Promise, Solver, get_solver, kinds_of_solver
from allocopt.solving.result import EQUAL_RELATIVE, Incumbent, Result, Status, StopReason, sign_of, tolerance_of
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify, verify_result

ENOUGH = Budget(60.0)  # every exact solver proves the optimum of a shipped problem within it
# If a solver exceeds its time limit by more than this many seconds in every try, it ignores the limit.
LATE_S, TRIES = 2.0, 3


class ContractError(AssertionError):
    """A solver breaks the contract of solvers."""


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """A claim about a solver on one problem."""

    claim: str
    solver: Solver
    problem: Problem
    look: Callable[[Solver, Problem], None]
    before: dict[str, object]  # the problem as its file holds it, which no solver may change

    def __call__(self) -> None:
        """Raise `ContractError` if the claim does not hold, `WrongAnswerError` if the verifier refutes an answer."""
        try:
            self.look(self.solver, self.problem)
        finally:
            _claim(object_from_problem(self.problem) == self.before, "it changes the given problem")

    def __str__(self) -> str:
        strategy = kind_of(self.problem).strategy_of(self.problem) or self.problem.kind
        return f"{self.solver.name}, {strategy}, {self.problem.name}: {self.claim}"


def contract_checks(
    solver: str | Solver, problems: Sequence[Problem] | None = None, kind: str | None = None
) -> list[ContractCheck]:
    """Return the claims that must hold for a solver.

    Parameters
    ----------
    solver
        A solver, or a name. A name stands for all installed solvers of that name.
    problems
        Problems whose optima can be proved in seconds; each is solved under every strategy that the solver takes. None
        for the shipped ones of the kind.
    kind
        Kind of the solvers that a name stands for; None for all kinds.

    Raises
    ------
    UsageError
        If there is no solver of that name.
    ContractError
        If the solver has another name, declares unknown strategies, lacks a declaration, or takes none of the problems.
    """
    if isinstance(solver, str):
        kinds = (kinds_of_solver(solver) or kind_names()) if kind is None else [kind]
        named = [get_solver(solver, None, each) for each in kinds]
        for each in named:
            _claim(each.name == solver, f"solver {solver!r} has the name {each.name!r}")
        return [check for each in named for check in contract_checks(each, problems)]
    able, kind_of_solver = solver.capabilities, get_kind(solver.kind)
    strategies = kind_of_solver.strategies
    _claim(bool(solver.name), "it has no name")
    _claim(able.strategies <= frozenset(strategies), f"unknown strategies: {able.strategies}")
    _claim(bool(able.strategies) is bool(strategies), "it takes none of the strategies of its kind")
    _claim(bool(able.largest), "it does not state the largest size that it takes")
    _claim(bool(solver.version), "it has no version")
    _claim(solver.is_available(), "it is not available here")
    given = shipped_problems(solver.kind) if problems is None else [one for one in problems if one.kind == solver.kind]
    posed = [kind_of_solver.posed(one, strategy) for one in given for strategy in strategies or (None,)]
    asked = [problem for problem in posed if solver.takes(problem) and solver.refusal(problem) is None]
    _claim(bool(asked), f"solver {solver.name!r} takes none of the problems")
    pairs = [(problem, object_from_problem(problem)) for problem in asked]
    return [
        ContractCheck(claim, solver, problem, look, held) for claim, look in _LOOKS.items() for problem, held in pairs
    ]


def _look_at_answer(solver: Solver, problem: Problem) -> None:
    told: list[Incumbent] = []
    result = solver.solve(problem, ENOUGH, 5, None, told.append)
    _check_result(problem, result)
    _claim((result.solver, result.seed) == (solver.name, 5), "the result names another solver or seed")
    _claim(tuple(told) == result.incumbents, "`on_incumbent` was not called with every incumbent of the result")
    _claim(bool(told) and told[-1].objective == result.objective, "the last incumbent is not the answer")
    _claim(0.0 <= told[0].time_s and told[-1].time_s <= result.runtime_s, "an incumbent has a time outside the solve")
    sign = sign_of(problem)
    for before, after in pairwise(told):
        _claim(before.time_s <= after.time_s, "an incumbent is older than the one before")
        bounds = [-np.inf if one.bound is None else sign * one.bound for one in (before, after)]
        _claim(bounds[0] <= bounds[1], "a bound is weaker than the one before")
        gain = sign * (before.objective - after.objective)
        is_better = gain > 0.0 or (gain == 0.0 and bounds[0] < bounds[1])
        _claim(is_better, "an incumbent is no better than the one before")


def _look_at_promises(solver: Solver, problem: Problem) -> None:
    result, promises = solver.solve(problem, ENOUGH, 0), solver.capabilities.promises
    _claim(Promise.BOUND not in promises or result.bound is not None, "it promises a bound and returns none")
    _claim(
        Promise.EXACT not in promises or result.status is Status.OPTIMAL,
        f"it promises a proven optimum and returns {result.status}",
    )


def _look_at_optimum(solver: Solver, problem: Problem) -> None:
    best = solve(problem, solver="auto", time_limit=ENOUGH.seconds)
    result, sign = solver.solve(problem, ENOUGH, 0), sign_of(problem)
    if best.status is not Status.OPTIMAL or best.objective is None or result.objective is None:
        return
    slack = tolerance_of(best.objective)
    _claim(sign * (result.objective - best.objective) >= -slack, f"{result.objective} is better than the optimum")
    excludes = result.bound is not None and sign * (best.objective - result.bound) < -slack
    _claim(not excludes, f"its bound {result.bound} excludes the optimum")


def _look_at_seed(solver: Solver, problem: Problem) -> None:
    first, again = (solver.solve(problem, Budget(iterations=30), 7) for _ in range(2))
    _claim(first.objective == again.objective, "the same seed gave another objective")
    _claim(first.status is again.status, "the same seed gave another status")


def _look_at_warm_start(solver: Solver, problem: Problem) -> None:
    best = solve(problem, solver="auto", time_limit=ENOUGH.seconds).solution
    result = solver.solve(problem, Budget(iterations=5), 0, best)
    _check_result(problem, result)
    given = problem.objective(best)
    worse = sign_of(problem) * ((result.objective or 0.0) - given)
    _claim(worse <= tolerance_of(given), "the answer is worse than the warm start")


def _look_at_short_limit(solver: Solver, problem: Problem) -> None:
    searches = solver.capabilities.promises & {Promise.EXACT, Promise.ANYTIME}
    # The first limit passes before anything begins, the others while the solver runs.
    for seconds in (1e-9, 1e-3, 2e-2):
        result = solver.solve(problem, Budget(seconds), 0)
        _check_result(problem, result)
        wrong = {StopReason.GAP, StopReason.INTERRUPTED}
        if searches and seconds == 1e-9:
            wrong.add(StopReason.COMPLETED)
        _claim(result.stopped_by not in wrong, f"it stops for '{result.stopped_by}' at a limit of {seconds} s")
    # One solve in time is enough, because other programs may delay a solve.
    late = []
    for _ in range(TRIES):
        started = time.perf_counter()
        solver.solve(problem, Budget(1e-3), 0)
        late.append(time.perf_counter() - started - 1e-3)
        if late[-1] <= LATE_S:
            return
    raise ContractError(f"it exceeds its limit by {min(late):.1f} s")


def _look_at_interruption(solver: Solver, problem: Problem) -> None:
    def interrupt(incumbent: Incumbent) -> None:
        raise KeyboardInterrupt

    try:
        result = solver.solve(problem, ENOUGH, 0, None, interrupt)
    except KeyboardInterrupt:
        raise ContractError("Ctrl-C ends it without an answer") from None
    verify_result(problem, result)
    _claim(result.stopped_by is StopReason.INTERRUPTED, f"after Ctrl-C it stops for '{result.stopped_by}'")
    _claim(result.status in (Status.INTERRUPTED, Status.OPTIMAL), f"after Ctrl-C it returns {result.status}")
    _claim(len(result.incumbents) == 1, "it continues after Ctrl-C")


def _look_at_manners(solver: Solver, problem: Problem) -> None:
    def generators() -> bytes:
        return pickle.dumps((random.getstate(), np.random.get_state()))

    before, printed = generators(), io.StringIO()
    with redirect_stdout(printed):
        solver.solve(problem, Budget(5.0, 100), 0)
    _claim(printed.getvalue() == "", "it prints on standard output")
    _claim(generators() == before, "it draws from a global generator; make one from the seed")


_LOOKS: dict[str, Callable[[Solver, Problem], None]] = {
    "the answer is valid and described correctly": _look_at_answer,
    "promises are kept": _look_at_promises,
    "the optimum lies between bound and objective": _look_at_optimum,
    "the same seed gives the same answer": _look_at_seed,
    "a warm start is never made worse": _look_at_warm_start,
    "a limit that is too short still gives a valid answer": _look_at_short_limit,
    "Ctrl-C gives the best solution so far": _look_at_interruption,
    "nothing is printed, and global random generators are not used": _look_at_manners,
}


def _check_result(problem: Problem, result: Result) -> None:
    verify_result(problem, result)
    _claim(result.solution is not None, f"there is no answer, only {result.status}")
    _claim(result.objective == verify(problem, result.solution), "the objective is not that of the solution")
    proved = result.gap is not None and result.gap <= EQUAL_RELATIVE
    _claim((result.status is Status.OPTIMAL) is proved, f"it returns {result.status} at a gap of {result.gap}")
    _claim((result.stopped_by is StopReason.PROVED) is proved, f"'{result.stopped_by}' stops it at gap {result.gap}")
    if result.objective is not None and result.bound is not None:
        left = sign_of(problem) * (result.objective - result.bound)
        _claim(
            left == 0.0 if proved else 0.0 < left < np.inf,
            f"its bound {result.bound} does not fit its objective {result.objective}",
        )


def _claim(holds: bool, fault: str) -> None:
    if not holds:
        raise ContractError(fault)
