"""The checker outside the solvers: it recomputes feasibility and objective only from the raw problem and solution."""

from allocopt.errors import InvalidSolutionError, WrongAnswerError
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_of
from allocopt.solving.result import EQUAL_RELATIVE, Result, Status, sign_of, tolerance_of


def verify(problem: Problem, solution: object) -> float:
    """Check a solution against every rule of its problem; return its objective.

    Raises `InvalidSolutionError` if a rule is broken; the error names the job, the node or the amount.
    """
    kind = kind_of(problem)
    if not isinstance(solution, kind.solution):
        given, right = type(solution).__name__, kind.solution.__name__
        raise InvalidSolutionError(f"the solution is a {given}, must be of class {right}")
    return kind.verify(problem, solution)


def verify_result(problem: Problem, result: Result) -> None:
    """Check a solver's answer: its solution, its stated objective, its bound and its status.

    Raises `WrongAnswerError` if the solution breaks a rule, the objective is not that of the solution, or bound or
    status contradict it.
    """
    if not isinstance(result, Result):
        raise WrongAnswerError(f"the solver returned {type(result).__name__}, must return a Result")
    try:
        if result.solution is None:
            if result.status in (Status.OPTIMAL, Status.FEASIBLE):
                raise InvalidSolutionError(f"its status is {result.status}, but it has no solution")
            return
        if result.status in (Status.INFEASIBLE, Status.UNKNOWN):
            raise InvalidSolutionError(f"its status is {result.status}, but it has a solution")
        objective = verify(problem, result.solution)
        check_stated(objective, result.objective, result.bound, sign_of(problem))
        if result.status is Status.OPTIMAL and (result.gap is None or result.gap > EQUAL_RELATIVE):
            raise InvalidSolutionError(f"its status is OPTIMAL, but its bound is {result.bound}")
    except InvalidSolutionError as error:
        raise WrongAnswerError(f"solver {result.solver!r} returned a wrong answer: {error}") from None


def check_stated(objective: float, stated: float | None, bound: float | None, sign: float) -> None:
    """Compare an objective, recomputed from the raw solution, with the stated one and with the bound, if there is one.

    Raises `InvalidSolutionError` if the objectives differ by more than 1e-6 relative, or if the bound excludes the
    solution; ``sign`` is that of `sign_of`.
    """
    tolerance = tolerance_of(objective)
    if stated is None or not abs(stated - objective) <= tolerance:
        raise InvalidSolutionError(f"the stated objective is {stated}, recomputed it is {objective:.12g}")
    # Negated, so that NaN is refused as well.
    if bound is not None and not sign * (bound - objective) <= tolerance:
        raise InvalidSolutionError(f"the stated bound {bound} excludes the solution of objective {objective:.12g}")
