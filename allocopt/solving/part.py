"""A solver that runs inside the solve of another one."""

from typing import Any

from allocopt.problems.base import Problem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.result import Status, StopReason
from allocopt.solving.run import Run


def ask(solver: Solver, asked: Problem, budget: Budget, seed: int, problem: Problem, run: Run) -> StopReason:
    """Let a solver run, from the incumbent where the strategies agree; take what it finds and return why it stopped.

    Parameters
    ----------
    solver
        Who is asked.
    asked, budget, seed
        What it is asked for: the same window, maybe under another strategy. A narrower one gives solutions, a wider one
        bounds, the same both; problems without a strategy are the same.
    problem, run
        The problem of the solve around it, and its record.
    """
    gives_solutions, is_same = _holds_within(asked, problem), _strategy(asked) is _strategy(problem)
    result = solver.solve(
        asked,
        budget,
        seed,
        run.solution if is_same else None,
        (lambda incumbent: run.foresee(incumbent.objective)) if gives_solutions else None,
    )
    run.interrupted = result.status is Status.INTERRUPTED or result.stopped_by is StopReason.INTERRUPTED
    if result.status is Status.INFEASIBLE:
        run.prove_infeasible()
    if result.solution is not None and gives_solutions:
        run.offer(result.solution, result.objective)
    if result.bound is not None and _holds_within(problem, asked):
        run.prove(result.bound)
    return result.stopped_by


def _strategy(problem: Problem) -> Any:
    """Return the strategy of a problem; None where its kind has none."""
    return getattr(problem, "strategy", None)


def _holds_within(narrower: Problem, wider: Problem) -> bool:
    """Whether every solution of one problem is one of the other."""
    first, second = _strategy(narrower), _strategy(wider)
    return first is second or bool(first.holds_within(second))
