"""``allocopt sweep``."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allocopt.cli.options import Json

if TYPE_CHECKING:
    from allocopt.experiments.cells import Grid
    from allocopt.experiments.executor import Executor
    from allocopt.experiments.store import Store


def command(
    file: Annotated[Path, typer.Argument(readable=False, metavar="FILE.toml", help="Description of the grid.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", readable=False, help="The table, .csv or .jsonl; if not given, .csv beside the description."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Cells at a time; if not given, as many as there are cores.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on this Ray cluster: HOST:PORT, or auto for one that runs here."),
    ] = None,
    drop_stale: Annotated[
        bool, typer.Option("--drop-stale", help="Remove finished cells that the grid does not have any more.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a grid of (instances or traces) x (solvers or policies) x seeds, one row per cell.

    Every finished cell is kept in the journal beside the table at once: after a crash or Ctrl-C the same command goes
    on from there. A cell whose worker dies is run again.
    """
    from allocopt.cli.outputs import check_files_differ
    from allocopt.experiments.plan import plan
    from allocopt.experiments.store import Store, journal_of
    from allocopt.experiments.table import check_suffix, write_table
    from allocopt.report.provenance import provenance

    output = file.with_suffix(".csv") if out is None else out
    check_suffix(output)
    grid = plan(file)
    check_files_differ(*grid.files, output, journal_of(output))
    with closing(Store(output, provenance().as_dict())) as store:
        _treat_stale(grid, store, drop=drop_stale)
        _run(grid, store, workers, ray)
        rows = [store.records[cell.key]["row"] for cell in grid.cells]
        write_table(output, rows)
    for row in rows if as_json else ():
        print(json.dumps(row, allow_nan=False), flush=True)
    print(f"{output}: rows written: {len(rows)}", file=sys.stderr if as_json else sys.stdout, flush=True)
    _check_none_failed(grid, rows)


def _treat_stale(grid: "Grid", store: "Store", *, drop: bool) -> None:
    """Say which finished cells are not of the grid, or remove them; say if several programs have been at work."""
    from allocopt.experiments.stale import stale_keys, stale_remark

    stale = stale_keys(grid, store)
    if stale and drop:
        store.drop(stale)
        print(f"allocopt: {store.path}: cells removed: {len(stale)}", file=sys.stderr)
    elif stale:
        print(f"allocopt: {stale_remark(grid, store, stale)}", file=sys.stderr)
    if store.is_of_another_program():
        print(f"allocopt: {store.path} has cells of another version, commit or machine", file=sys.stderr)


def _run(grid: "Grid", store: "Store", workers: int | None, ray: str | None) -> None:
    """Run what is not finished."""
    from allocopt.experiments.drive import Drive
    from allocopt.experiments.progress import Progress
    from allocopt.interruption import interruption_held

    done = _done(grid, store)
    rows = store.rows()
    odd = sum(cell.key in rows for cell in grid.cells) - done
    if odd:
        print(f"allocopt: {store.path}: rows of another shape, which are computed again: {odd}", file=sys.stderr)
    if done == len(grid.cells):
        return
    progress = Progress(len(grid.cells), done, sys.stderr)
    if done:
        progress.remark(f"{done} of {len(grid.cells)} cells are in {store.path}")
    with (
        _interruption_explained(grid, store),
        interruption_held() as interrupted,
        closing(_executor(grid, workers, ray)) as executor,
    ):
        Drive(grid, store, executor, progress, interrupted).run()
    progress.close()


@contextmanager
def _interruption_explained(grid: "Grid", store: "Store") -> Iterator[None]:
    """After Ctrl-C, say how much is done and where it is kept."""
    try:
        yield
    except KeyboardInterrupt:
        done = f"{_done(grid, store)} of {len(grid.cells)} cells done"
        if sys.stderr.isatty():
            # What is said comes behind the line of progress.
            print(file=sys.stderr)
        raise KeyboardInterrupt(f"{done}, kept in {store.path}; the same command goes on from there") from None


def _done(grid: "Grid", store: "Store") -> int:
    """Count the cells that are finished."""
    return len(grid.finished(store.rows()))


def _executor(grid: "Grid", workers: int | None, ray: str | None) -> "Executor":
    """Make who runs the cells."""
    if ray is not None:
        from allocopt.experiments.on_ray import RayExecutor

        return RayExecutor(ray, workers, grid.inputs)
    from allocopt.experiments.local import LocalExecutor, cores

    return LocalExecutor(workers or cores(), grid.inputs)


def _check_none_failed(grid: "Grid", rows: list[Mapping[str, Any]]) -> None:
    """Raise where cells have failed."""
    from allocopt.errors import AllocoptError
    from allocopt.experiments.cells import FAILED

    failed = [(cell.label, row["error"]) for cell, row in zip(grid.cells, rows, strict=True) if row["status"] == FAILED]
    if failed:
        label, reason = failed[0]
        count = f"{len(failed)} of {len(rows)} cells failed, such as {label}: {reason}"
        raise AllocoptError(f"{count}; the same command tries them again")
