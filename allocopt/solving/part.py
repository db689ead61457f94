"""A solver that runs inside the solve of another one."""

from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_of
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
    wide = _rank(asked) - _rank(problem)
    result = solver.solve(
        asked,
        budget,
        seed,
        run.solution if wide == 0 else None,
        (lambda incumbent: run.foresee(incumbent.objective)) if wide <= 0 else None,
    )
    run.interrupted = result.status is Status.INTERRUPTED or result.stopped_by is StopReason.INTERRUPTED
    if result.status is Status.INFEASIBLE:
        run.prove_infeasible()
    if result.solution is not None and wide <= 0:
        run.offer(result.solution, result.objective)
    if result.bound is not None and wide >= 0:
        run.prove(result.bound)
    return result.stopped_by


def _rank(problem: Problem) -> int:
    """Return the place of a problem's strategy among those of its kind, each of which holds those before."""
    kind = kind_of(problem)
    strategy = kind.strategy_of(problem)
    return 0 if strategy is None else kind.strategies.index(strategy)
