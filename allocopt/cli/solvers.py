"""``allocopt solvers``."""

import json
from typing import Any

from allocopt.cli.options import Json
from allocopt.cli.terminal import listed, prints_on_stderr, screen_width


def command(as_json: Json = False) -> None:
    """List the installed solvers: kinds of problems, strategies, promises and the largest size that each solves."""
    from allocopt.errors import AllocoptError, MissingPackageError
    from allocopt.plugins import Fence
    from allocopt.problems.kind import get_kind
    from allocopt.report.words import aligned_table
    from allocopt.solving.protocol import get_solver, kinds_of_solver, solver_names

    rows: list[dict[str, Any]] = []
    for name in solver_names():
        known = kinds_of_solver(name)
        shown: dict[str, Any] = {"kinds": [], "strategies": [], "promises": [], "largest": "", "available": False}
        try:
            with prints_on_stderr(), Fence(f"solver {name!r}"):
                solvers = [get_solver(name, None, kind) for kind in reversed(known)]
                able = [solver.capabilities for solver in solvers]
                sizes = dict.fromkeys(
                    f"{solver.kind}: {one.largest}" if number else one.largest
                    for number, (solver, one) in enumerate(zip(solvers, able, strict=True))
                )
                shown = {
                    "kinds": known,
                    "strategies": sorted(set().union(*(one.strategies for one in able))),
                    "promises": sorted(set.intersection(*(set(one.promises) for one in able))),
                    "largest": "; ".join(sizes),
                    "available": all(solver.is_available() for solver in solvers),
                }
        except MissingPackageError as error:
            shown["largest"] = str(error)
        except AllocoptError as error:
            shown["largest"] = f"broken: {error}"
        rows.append({"solver": name, **shown})
    if as_json:
        print("\n".join(map(json.dumps, rows)))
        return
    cells, texts = [], {}
    for row in rows:
        kinds, strategies, promises = (row[name] for name in ("kinds", "strategies", "promises"))
        available = "yes" if row["available"] else "no"
        listed_promises = " ".join(promises) or "-"
        cells.append((row["solver"], " ".join(kinds), " ".join(strategies), listed_promises, row["largest"], available))
        taken = [f"{kind} ({', '.join(strategies)})" if get_kind(kind).strategies else kind for kind in reversed(kinds)]
        text = f"{', '.join(taken)}{'; ' * bool(promises)}{', '.join(promises)}; up to {row['largest']}"
        text = text.replace("up to any", "any size")
        texts[row["solver"]] = text if row["available"] else f"not available: {row['largest']}"
    header = ("solver", "kinds", "strategies", "promises", "largest size", "available")
    table, width = aligned_table(header, cells, (None,) * 6), screen_width()
    # A table that is wider than the screen would be wrapped and unreadable.
    fits = width is None or table.index("\n") <= width
    print(table if fits else listed(texts))
