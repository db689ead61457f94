"""``allocopt solvers``."""

import json
from dataclasses import asdict, dataclass

from allocopt.cli.options import Json
from allocopt.cli.terminal import listed, screen_width


def command(as_json: Json = False) -> None:
    """List the installed solvers: kinds of problems, strategies, promises and the largest size each takes."""
    from allocopt.solving.registry import solver_names

    rows = [_row(name) for name in solver_names()]
    if as_json:
        print("\n".join(json.dumps(asdict(row)) for row in rows))
        return
    table, width = _table(rows), screen_width()
    # A table that is wider than the screen would be wrapped into something nobody can read.
    fits = width is None or table.index("\n") <= width
    print(table if fits else listed({row.solver: _described(row) for row in rows}))


@dataclass(frozen=True, slots=True)
class _SolverRow:
    """One solver of the list, its fields as ``--json`` prints them."""

    solver: str
    kinds: list[str]
    strategies: list[str]
    promises: list[str]
    largest: str
    available: bool


def _table(rows: "list[_SolverRow]") -> str:
    """Format a line per solver."""
    from allocopt.report.table import aligned_table

    header = ("solver", "kinds", "strategies", "promises", "largest size", "available")
    cells = [
        (
            row.solver,
            " ".join(row.kinds),
            " ".join(row.strategies),
            " ".join(row.promises) or "-",
            row.largest,
            "yes" if row.available else "no",
        )
        for row in rows
    ]
    return aligned_table(header, cells, (None,) * 6)


def _described(row: _SolverRow) -> str:
    """Say in a sentence what a solver takes and promises."""
    from allocopt.problems.kind import get_kind

    if not row.available:
        return f"not available: {row.largest}"
    kinds = [
        f"{kind} ({', '.join(row.strategies)})" if get_kind(kind).strategies else kind for kind in reversed(row.kinds)
    ]
    promises = f"; {', '.join(row.promises)}" if row.promises else ""
    return f"{', '.join(kinds)}{promises}; up to {row.largest}".replace("up to any", "any size")


def _row(name: str) -> _SolverRow:
    """Describe the solver of that name."""
    from allocopt.cli.terminal import prints_on_stderr
    from allocopt.errors import AllocoptError, MissingPackageError
    from allocopt.plugins import Fence
    from allocopt.solving.registry import get_solver, kinds_of_solver

    kinds = kinds_of_solver(name)
    try:
        with prints_on_stderr(), Fence(f"solver {name!r}"):
            solvers = [get_solver(name, None, kind) for kind in reversed(kinds)]
            able = [solver.capabilities for solver in solvers]
            strategies = sorted(set().union(*(one.strategies for one in able)))
            promises = sorted(set.intersection(*(set(one.promises) for one in able)))
            sizes = dict.fromkeys(
                f"{solver.kind}: {one.largest}" if number else one.largest
                for number, (solver, one) in enumerate(zip(solvers, able, strict=True))
            )
            is_available = all(solver.is_available() for solver in solvers)
            return _SolverRow(name, kinds, list(strategies), list(promises), "; ".join(sizes), is_available)
    except MissingPackageError as error:
        return _SolverRow(name, [], [], [], str(error), False)
    except AllocoptError as error:
        return _SolverRow(name, [], [], [], f"broken: {error}", False)
