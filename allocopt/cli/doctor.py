"""``allocopt doctor``."""

import json
from typing import TYPE_CHECKING

import typer

from allocopt.cli.options import Json
from allocopt.cli.terminal import listed

if TYPE_CHECKING:
    from allocopt.solving.protocol import Solver


def command(as_json: Json = False) -> None:
    """Print versions for a bug report, and let every solver solve shipped problems; exit code 1 if one fails."""
    from allocopt.report.provenance import package_versions, provenance
    from allocopt.solving.registry import solver_names

    facts = {**provenance(), **package_versions()}
    checks = {name: _check(name) for name in solver_names()}
    if as_json:
        print(json.dumps({"versions": facts, "solvers": checks}))
    else:
        for title, lines in (("versions", facts), ("solvers", checks)):
            print(f"{title}:\n{listed(lines, indent='  ')}")
    if any(check.startswith("fails") for check in checks.values()):
        raise typer.Exit(1)


def _check(name: str) -> str:
    """Let a solver solve a shipped problem of every kind that it takes, and say how it went."""
    from allocopt.cli.terminal import prints_on_stderr
    from allocopt.errors import AllocoptError, MissingPackageError
    from allocopt.plugins import Fence
    from allocopt.solving.registry import get_solver, kinds_of_solver

    try:
        with prints_on_stderr(), Fence(f"solver {name!r}"):
            solvers = [get_solver(name, None, kind) for kind in reversed(kinds_of_solver(name))]
            found = [_solved(solver) for solver in solvers]
            versions = ", ".join(dict.fromkeys(solver.version for solver in solvers))
    except MissingPackageError as error:
        return f"missing: {error}"
    except AllocoptError as error:
        return f"fails: {error}"
    return f"works: {', '.join(found)} ({versions})"


def _solved(solver: "Solver") -> str:
    """Solve the first shipped problem of a solver's kind, under the first strategy that it takes, if there are some."""
    from allocopt.problems.instances import shipped_problems
    from allocopt.report.rows import shown
    from allocopt.solving.solve import solve

    # A strategy by name, not by order of a set, so that two runs of the doctor examine the same.
    strategy = min(solver.capabilities.strategies, default=None)
    problem = next(iter(shipped_problems(solver.kind)), None)
    if problem is None:
        return f"{solver.kind} has no shipped instances"
    result = solve(problem, strategy, solver, time_limit=10.0)
    value = "no solution" if result.objective is None else shown(problem, result.objective)
    return f"{strategy or problem.kind} {result.status} {value}"
