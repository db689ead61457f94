"""``allocopt doctor``."""

import json

import typer

from allocopt.cli.options import Json
from allocopt.cli.terminal import listed, prints_on_stderr


def command(as_json: Json = False) -> None:
    """Print versions for a bug report, and test every solver on a shipped instance; exit code 1 if one fails."""
    from allocopt.errors import AllocoptError, MissingPackageError
    from allocopt.plugins import Fence
    from allocopt.problems.instances import shipped_problems
    from allocopt.problems.kind import get_kind, shown_objective
    from allocopt.report.provenance import package_versions, provenance
    from allocopt.solving.protocol import get_solver, kinds_of_solver, solver_names
    from allocopt.solving.solve import prepare, solve

    facts = {**provenance(), **package_versions()}
    checks: dict[str, str] = {}
    for name in solver_names():
        found, versions = [], []
        try:
            with prints_on_stderr(), Fence(f"solver {name!r}"):
                for solver in [get_solver(name, None, kind) for kind in reversed(kinds_of_solver(name))]:
                    versions.append(solver.version)
                    problem = next(iter(shipped_problems(solver.kind)), None)
                    if problem is None:
                        found.append(f"{solver.kind} has no shipped instances")
                        continue
                    # The first by name: the order of a set differs between runs.
                    strategy = min(solver.capabilities.strategies, default=None)
                    posed = get_kind(solver.kind).posed(problem, strategy)
                    # The limit excludes compiling.
                    prepare(solver, [posed])
                    result = solve(posed, solver=solver, time_limit=10.0)
                    value = "no solution" if result.objective is None else shown_objective(problem, result.objective)
                    found.append(f"{strategy or problem.kind} {result.status} {value}")
            checks[name] = f"works: {', '.join(found)} ({', '.join(dict.fromkeys(versions))})"
        except MissingPackageError as error:
            checks[name] = f"missing: {error}"
        except AllocoptError as error:
            checks[name] = f"fails: {error}"
    if as_json:
        print(json.dumps({"versions": facts, "solvers": checks}))
    else:
        for title, lines in (("versions", facts), ("solvers", checks)):
            print(f"{title}:\n{listed(lines, indent='  ')}")
    if any(check.startswith("fails") for check in checks.values()):
        raise typer.Exit(1)
