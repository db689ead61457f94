"""A solver that runs inside the solve of another one."""

from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.result import Status, StopReason
from allocopt.solving.run import Run


def ask(
    solver: Solver, asked: TopologyProblem, budget: Budget, seed: int, problem: TopologyProblem, run: Run
) -> StopReason:
    """Let a solver run, from the incumbent where the strategies agree; take what it finds and return why it stopped.

    Parameters
    ----------
    solver
        Who is asked.
    asked, budget, seed
        What it is asked for: the same window, maybe under another strategy. A narrower one gives solutions, a wider one
        bounds, the same both.
    problem, run
        The problem of the solve around it, and its record.
    """
    gives_solutions = asked.strategy.holds_within(problem.strategy)
    result = solver.solve(
        asked,
        budget,
        seed,
        run.solution if asked.strategy is problem.strategy else None,
        (lambda incumbent: run.foresee(incumbent.objective)) if gives_solutions else None,
    )
    run.interrupted = result.status is Status.INTERRUPTED or result.stopped_by is StopReason.INTERRUPTED
    if result.status is Status.INFEASIBLE:
        run.prove_infeasible()
    if result.solution is not None and gives_solutions:
        run.offer(result.solution)
    if result.bound is not None and problem.strategy.holds_within(asked.strategy):
        run.prove(result.bound)
    return result.stopped_by
