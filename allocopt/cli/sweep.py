"""``allocopt sweep``."""

import json
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import Json, check_files_differ, file_argument, file_option

if TYPE_CHECKING:
    pass


def command(
    file: Annotated[Path, file_argument("Description of the grid.", metavar="FILE.toml")],
    out: Annotated[
        Path | None, file_option("Write the .csv or .jsonl table here; default: .csv beside FILE.toml.", "--out", "-o")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Run this many cells at a time; if not given, one per core.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on this Ray cluster: HOST:PORT, or auto for one that runs here."),
    ] = None,
    drop_stale: Annotated[
        bool, typer.Option("--drop-stale", help="Remove finished cells that are no longer in the grid.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Only print the progress of the run, which may be running elsewhere.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a grid of (instances or traces) x (solvers or policies) x seeds, one row per cell.

    Every finished cell is stored immediately in TABLE.sqlite beside the table: after a crash or Ctrl-C the same command
    continues. A cell whose worker dies is run again.
    """
    from allocopt.cli.grids import check_none_failed
    from allocopt.experiments.engine import run
    from allocopt.experiments.plan import plan
    from allocopt.experiments.store import Status, Store
    from allocopt.experiments.workers import LocalWorkers, RayWorkers
    from allocopt.report.provenance import provenance
    from allocopt.report.rows import check_suffix, write_table

    output = file.with_suffix(".csv") if out is None else out
    check_suffix(output, ".csv", ".jsonl")
    if status:
        found = Status.read(output)
        row = {**asdict(found), "left": found.left, "left_s": found.left_s}
        print(json.dumps(row, allow_nan=False) if as_json else f"{output}: {found.line()}")
        return
    grid = plan(file)
    check_files_differ(*grid.files, output, Store.path_of(output))
    with closing(Store(output, provenance())) as store:
        stale, kept = store.stale(grid), store.rows()
        if stale and drop_stale:
            store.drop(stale)
            print(f"allocopt: {store.path}: cells removed: {len(stale)}", file=sys.stderr)
        elif stale:
            print(f"allocopt: {store.stale_remark(grid, stale)}", file=sys.stderr)
        if store.is_of_another_program():
            print(f"allocopt: {store.path}: some cells are from another version, commit or machine", file=sys.stderr)
        if odd := sum(cell.key in kept for cell in grid.cells) - len(grid.finished(kept)):
            print(f"allocopt: {store.path}: rows with other columns, which are computed again: {odd}", file=sys.stderr)
        rows = run(
            grid,
            store,
            lambda: closing(LocalWorkers(grid, workers) if ray is None else RayWorkers(grid, ray, workers)),
            out=sys.stderr,
        )
        write_table(output, rows)
        for row in rows if as_json else ():
            print(json.dumps(row, allow_nan=False), flush=True)
        print(f"{output}: rows written: {len(rows)}", file=sys.stderr if as_json else sys.stdout, flush=True)
        check_none_failed(grid, store)
