"""``allocopt doctor``."""

import json
from typing import TYPE_CHECKING

import typer

from allocopt.cli.announcement import compilation_announced
from allocopt.cli.options import Json

if TYPE_CHECKING:
    from allocopt.problems.topology import TopologyProblem


@compilation_announced()
def command(as_json: Json = False) -> None:
    """Print versions for a bug report, and let every solver solve a shipped window; exit code 1 if one fails."""
    from pathlib import Path

    from allocopt.cli.reading import read_instances
    from allocopt.report.provenance import package_versions, provenance
    from allocopt.solving.registry import solver_names

    facts = {**provenance().as_dict(), **package_versions()}
    problem = read_instances([Path("@tiny")])[0]
    checks = {name: _check(name, problem) for name in solver_names()}
    if as_json:
        print(json.dumps({"versions": facts, "solvers": checks}))
    else:
        for title, lines in (("versions", facts), ("solvers", checks)):
            print(f"{title}:")
            for name, line in lines.items():
                print(f"  {name:<24} {line}")
    if any(check.startswith("fails") for check in checks.values()):
        raise typer.Exit(1)


def _check(name: str, problem: "TopologyProblem") -> str:
    """Let a solver solve a window under the first strategy that it takes, and say how it went."""
    from allocopt.errors import AllocoptError, MissingPackageError
    from allocopt.solving.registry import get_solver
    from allocopt.solving.solve import solve

    try:
        solver = get_solver(name)
        strategy = min(solver.capabilities.strategies)
        result = solve(problem, strategy, solver, time_limit=10.0)
    except MissingPackageError as error:
        return f"missing: {error}"
    except AllocoptError as error:
        return f"fails: {error}"
    return f"works: {strategy} {result.status} {result.objective:.1f} ({result.version})"
