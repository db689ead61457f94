"""``allocopt verify``."""

from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.options import file_argument


def command(
    instance: Annotated[Path, file_argument("Instance file.")],
    solution: Annotated[Path, file_argument("Solution file.")],
    bound: Annotated[
        bool, typer.Option("--bound", help="Also prove the bound again by its certificate, however long that takes.")
    ] = False,
) -> None:
    """Check a solution against its instance: every rule of the problem, the objective and, with --bound, the bound.

    The exit code is 0 if the solution is right. Otherwise it is 3, and the reason is printed.
    """
    from allocopt.errors import InvalidSolutionError
    from allocopt.problems.instances import read_instances
    from allocopt.solving.solution_files import check_solution, check_stored_bound, read_solution

    stored = read_solution(solution)
    problems = read_instances([instance])
    # A file may hold many instances; the solution names its own.
    named = [problem for problem in problems if problem.name == stored.instance]
    if not named:
        raise InvalidSolutionError(f"{solution}: instance: {stored.instance!r} is not in {instance}")
    try:
        objective = check_solution(named[0], stored)
        claim = (
            ""
            if stored.bound is None
            else f"; its bound {stored.bound:.12g} is consistent, but not proved again; use --bound"
        )
        if bound:
            method, seconds = check_stored_bound(named[0], stored)
            claim = f"; its bound {stored.bound:.12g} is certified ({method}, {seconds:.3f} s)"
    except InvalidSolutionError as error:
        raise InvalidSolutionError(f"{solution}: {error}") from None
    print(f"{solution}: valid, {stored.strategy or stored.kind}, objective {objective:.12g}{claim}")
