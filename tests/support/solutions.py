"""Solutions as their files hold them, without files."""

from allocopt.files.models import SolutionModel, validated
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_of
from allocopt.solving.result import Result
from allocopt.solving.solution_files import _solution_object


def stored_solution(problem: Problem, result: Result) -> SolutionModel:
    """Return a result as it is read from its file."""
    return validated(kind_of(problem).codec.solution_model, _solution_object(problem, result), problem.name)
