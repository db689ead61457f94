"""``allocopt doctor``."""

import json
from typing import TYPE_CHECKING

import typer

from allocopt.cli.options import Json
from allocopt.cli.screen import listed

if TYPE_CHECKING:
    from allocopt.problems.base import Problem
    from allocopt.solving.protocol import Solver


def command(as_json: Json = False) -> None:
    """Print versions for a bug report, and let every solver solve shipped problems; exit code 1 if one fails."""
    from allocopt.report.provenance import package_versions, provenance
    from allocopt.solving.registry import solver_names

    facts = {**provenance().as_dict(), **package_versions()}
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
    from allocopt.cli.streams import prints_on_stderr
    from allocopt.errors import AllocoptError, MissingPackageError
    from allocopt.plugins import Fence
    from allocopt.solving.registry import get_solver

    try:
        with prints_on_stderr(), Fence(f"solver {name!r}"):
            solver = get_solver(name)
            found = [_solved(solver, problem) for problem in _shipped() if problem.kind in solver.capabilities.kinds]
            version = solver.version
    except MissingPackageError as error:
        return f"missing: {error}"
    except AllocoptError as error:
        return f"fails: {error}"
    return f"works: {', '.join(found)} ({version})"


def _shipped() -> "list[Problem]":
    """Return the first shipped problem of every kind."""
    from pathlib import Path

    from allocopt.files.instances import read_instances
    from allocopt.files.shipped import SHIPPED

    return [read_instances([Path(name)])[0] for name in SHIPPED]


def _solved(solver: "Solver", problem: "Problem") -> str:
    """Solve a problem, under the first strategy that the solver takes if its kind has strategies."""
    from allocopt.problems.topology import TopologyProblem
    from allocopt.report.rows import shown
    from allocopt.solving.solve import solve

    strategy = min(solver.capabilities.strategies) if isinstance(problem, TopologyProblem) else None
    result = solve(problem, strategy, solver, time_limit=10.0)
    value = "no solution" if result.objective is None else shown(problem, result.objective)
    return f"{strategy or problem.kind} {result.status} {value}"
