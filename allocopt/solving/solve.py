"""`solve`: one call for every solver and every problem."""

import math
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, ParamSpec, TextIO, TypeVar

from allocopt.errors import (
    AllocoptError,
    InvalidProblemError,
    InvalidSolutionError,
    MissingPackageError,
    UsageError,
    WrongAnswerError,
)
from allocopt.kernels.ready import load_stored, make_ready, unloaded
from allocopt.plugins import Fence
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_name, kind_of
from allocopt.solving.budget import Budget
from allocopt.solving.certify import certified, time_to_check
from allocopt.solving.log import log_of
from allocopt.solving.protocol import IncumbentCallback, Solver, get_solver, solver_names
from allocopt.solving.result import Result
from allocopt.solving.verify import verify, verify_result
from allocopt.values import converted

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

VERIFYING_S, VERIFYING_SHARE = 0.0005, 0.1  # time reserved for verifying an answer, and its largest share of a limit


def prepare(solver: Solver, problems: Iterable[Problem]) -> None:
    """Compile and load, before a clock starts, the kernels that a solver calls for those problems that it takes."""
    taken = (problem for problem in problems if _takes(solver, problem) and solver.refusal(problem) is None)
    make_ready({entry for problem in taken for entry in (*solver.kernels(problem), *check_kernels(problem))})


def solve(
    problem: Problem,
    *,
    solver: str | Solver = "auto",
    strategy: str | None = None,
    time_limit: float | None = 10.0,
    seed: int = 0,
    iterations: int | None = None,
    gap: float = 0.0,
    budget: Budget | None = None,
    certify: bool = False,
    warm_start: Any = None,
    on_incumbent: IncumbentCallback | None = None,
    display: bool | TextIO = False,
) -> Result:
    """Solve a problem with any solver, and verify the answer and its bound.

    The returned solution obeys the rules of the problem, and its objective was recomputed from the raw problem. The
    bound was recomputed from its certificate as well if that takes less than a tenth of the solve; see
    `Result.is_certified`.

    Parameters
    ----------
    solver
        Name of an installed solver, or a solver object.
    strategy
        ``scas``, ``dcas`` or ``free`` for a topology problem; None for the problem's own, which is ``free`` by default.
        Problems of other kinds take only None.
    time_limit
        Limit on the solve and the check of its answer, in seconds of wall clock; None for no limit. The clock starts
        after compiling kernels, which happens once per machine, and after imports, which happen once per process.
    seed
        Seed of all random choices.
    iterations
        Limit on the solver's own steps; None for the solver's default.
    gap
        Relative gap between solution and proven bound at which to stop, in [0, 1).
    budget
        All limits, in place of ``time_limit``, ``iterations`` and ``gap``. A `Budget` can also count compiling, and
        cancel a solve.
    certify
        Whether to check the bound, however long that takes.
    warm_start
        A feasible solution; the answer is never worse.
    on_incumbent
        Called with every better solution, and with tighter bounds between them, at most one per second.
    display
        Whether to print a log of the solve on standard output; or the text stream to print it on.

    Raises
    ------
    UsageError
        If the solver does not exist, does not take this problem, or the problem is too large for it; or if a limit or
        the seed is out of range, or ``display`` is neither a bool nor a stream.
    InvalidSolutionError
        If the warm start breaks a rule, or the solver returned a wrong answer or bound.
    PluginError
        If the solver raises an error of its own.
    SolveInterrupted
        After Ctrl-C; a `KeyboardInterrupt` whose ``result`` is the answer so far, verified like any other.
    """
    budget = Budget(time_limit, iterations, gap) if budget is None else budget
    clock, n_modules = budget.start(), len(sys.modules)
    seed = converted("the seed", seed, int)
    if seed < 0:
        raise UsageError(f"the seed is {seed}, must not be negative")
    if strategy is not None:
        problem = kind_of(problem).posed(problem, strategy)
    chosen = get_solver(solver, None, kind_name(problem)) if isinstance(solver, str) else solver
    check_takes(chosen, problem)
    log = log_of(problem, display)
    if warm_start is not None:
        verify(problem, warm_start)
    missing = unloaded({*chosen.kernels(problem), *check_kernels(problem)})
    if budget.includes_compiling:
        load_stored(missing)
    else:
        make_ready(missing)
    log.begin(chosen, budget, seed)
    # Imports and loading, which happen once per process, do not count.
    if missing or len(sys.modules) > n_modules:
        clock = budget.start()
    # Reserve time for verifying the answer within the limit.
    clock.started -= min(VERIFYING_S, VERIFYING_SHARE * clock.remaining())
    granted = log.budget(clock.grant(1.0, budget.iterations, budget.gap))
    result = _fenced(chosen, problem, granted, seed, warm_start, log.callback(on_incumbent))
    verify_result(problem, result)
    allowed_s = math.inf if certify else time_to_check(result, budget.seconds, clock.elapsed())
    result = certified(problem, result, allowed_s)
    log.end(result)
    return result.unless_interrupted()


def check_kernels(problem: Problem) -> Iterable[Callable[..., Any]]:
    """Return the kernel entries that the check of bounds calls."""
    return (entry for certificate in kind_of(problem).certificates.values() for entry in certificate.kernels())


def _fenced(
    solver: Solver,
    problem: Problem,
    budget: Budget,
    seed: int,
    warm_start: Any,
    on_incumbent: IncumbentCallback | None,
) -> Result:
    # An error is blamed on the solver, unless a function of the caller raised it.
    callers: list[Exception] = []

    def watched(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                callers.append(error)
                raise

        return call

    if budget.is_cancelled is not None:
        budget = replace(budget, is_cancelled=watched(budget.is_cancelled))
    told = None if on_incumbent is None else watched(on_incumbent)
    try:
        with Fence(f"solver {solver.name!r}"):
            return solver.solve(problem, budget, seed, warm_start, told)
    except (InvalidProblemError, InvalidSolutionError) as error:
        # Problem and warm start have been checked before, so the fault is in the answer.
        raise WrongAnswerError(f"solver {solver.name!r} returned a wrong answer: {error}") from error
    except AllocoptError as error:
        if error.__cause__ in callers:
            raise error.__cause__ from None
        raise


def check_takes(solver: Solver, problem: Problem) -> None:
    """Raise an error unless the solver can run here and takes this problem: its kind, strategy and size.

    The error is a `MissingPackageError` if a package is not installed. Otherwise it is a `UsageError`, which names the
    solvers that take the problem, or the largest size that this one takes.
    """
    kind = kind_of(problem)
    misposed = kind.misposed(problem)
    if misposed is not None:
        raise UsageError(misposed)
    check_available(solver)
    with Fence(f"solver {solver.name!r}"):
        is_taken = _takes(solver, problem)
        refusal = solver.refusal(problem) if is_taken else None
    if not is_taken:
        able = []
        for name in solver_names(problem.kind):
            # A broken plug-in must not hide the other solvers.
            with suppress(AllocoptError), Fence(name):
                other = get_solver(name, None, problem.kind)
                if other.is_available() and other.takes(problem):
                    able.append(name)
        others = ", ".join(able) or "none"
        raise UsageError(f"solver {solver.name!r} does not take {kind.asked(problem)}; solvers that do: {others}")
    if refusal is not None:
        raise UsageError(f"solver {solver.name!r} does not take {problem.name!r}: {refusal}")


def check_available(solver: Solver) -> None:
    """Raise `MissingPackageError` if a package that the solver needs is not installed."""
    with Fence(f"solver {solver.name!r}"):
        if solver.is_available():
            return
    raise MissingPackageError(f"solver {solver.name!r} is not available here: a package it needs is not installed")


def _takes(solver: Solver, problem: Problem) -> bool:
    return solver.kind == problem.kind and solver.takes(problem)
