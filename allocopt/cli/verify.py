"""``allocopt verify``."""

from pathlib import Path
from typing import Annotated

from allocopt.cli.options import file_argument


def command(
    instance: Annotated[Path, file_argument("Instance file.")],
    solution: Annotated[Path, file_argument("Solution file.")],
) -> None:
    """Check a solution against its instance: every rule of its problem, its objective, and that its bound fits it.

    Exit code 0 when it is valid and its objective right, else 3 with the reason.
    """
    from allocopt.errors import InvalidSolutionError
    from allocopt.problems.instances import read_instances
    from allocopt.solving.solution_files import check_solution, read_solution

    stored = read_solution(solution)
    problems = read_instances([instance])
    # A file may hold many windows; the solution says which one it answers.
    named = [problem for problem in problems if problem.name == stored.instance]
    if not named:
        raise InvalidSolutionError(f"{solution}: instance: {stored.instance!r} is not in {instance}")
    try:
        objective = check_solution(named[0], stored)
    except InvalidSolutionError as error:
        raise InvalidSolutionError(f"{solution}: {error}") from None
    # A bound is checked against this solution only: no solution can show that a bound is right.
    claim = "" if stored.bound is None else f"; its bound {stored.bound:.12g} fits, and is the solver's word"
    print(f"{solution}: valid, {stored.strategy or stored.kind}, objective {objective:.12g}{claim}")
