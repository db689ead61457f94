"""Running the grids of ``bench``, ``what-if``, ``reproduce`` and ``sweep``: store, executor, progress, failures."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from allocopt.experiments.cells import Cell, Grid, Row
    from allocopt.experiments.engine import Executor
    from allocopt.experiments.store import Store

Workers = Annotated[
    int | None, typer.Option(min=1, max=4096, metavar="N", help="Processes of one thread each; if not given, this one.")
]


@contextmanager
def finished_rows(
    output: Path | None,
    grid: "Grid",
    setting: Mapping[str, Any],
    workers: int | None,
    take: "Callable[[Cell, Row], None]",
    noun: str,
    *,
    fresh: bool = False,
) -> Iterator[None]:
    """Run a grid whose rows depend on a setting, and on this version and machine, until all is finished.

    A run that was cut off goes on where it was. Within the context a table is written from the rows; then the store
    goes: a crash between the two loses nothing. Raises `AllocoptError` where cells have failed.
    """
    from allocopt.experiments.cells import digest
    from allocopt.experiments.store import Store
    from allocopt.experiments.workers import LocalWorkers
    from allocopt.report.provenance import provenance

    # Where any of this differs, rows of an earlier run answer another question, and the store refuses.
    facts = provenance()
    cells = {"inputs": sorted(grid.inputs), "cells": digest([cell.label for cell in grid.cells])}
    with closing(Store(output, facts, {**setting, **cells, **facts})) as store:
        here = workers is None
        run_grid(
            grid, store, lambda: _here(grid) if here else closing(LocalWorkers(grid, workers, fresh=fresh)), take, noun
        )
        check_none_failed(grid, store, noun)
        yield
        store.remove()


def _here(grid: "Grid") -> "AbstractContextManager[Executor]":
    from allocopt.cli.terminal import prints_on_stderr
    from allocopt.experiments.engine import Here

    return nullcontext(Here(grid, prints_on_stderr))


def run_grid(
    grid: "Grid",
    store: "Store",
    executor: "Callable[[], AbstractContextManager[Executor]]",
    on_row: "Callable[[Cell, Row], None] | None" = None,
    noun: str = "cells",
) -> "list[Row]":
    """Run what is not finished, with progress on standard error, and return all rows."""
    from allocopt.experiments.engine import Progress, run

    total, done = len(grid.cells), len(grid.finished(store.rows()))
    progress = Progress(total, done, sys.stderr, noun)

    def tell(cell: "Cell", row: "Row") -> None:
        # What a command prints of a row goes where the line of progress stood.
        progress.clear()
        if on_row is not None:
            on_row(cell, row)

    if 0 < done < total:
        progress.remark(f"{done} of {total} {noun} are in {store.path}")
    try:
        # Where all is finished, neither processes nor a cluster are asked for.
        with executor() if done < total else _here(grid) as runs:
            rows = run(grid, store, runs, progress=progress, on_row=tell)
    except KeyboardInterrupt:
        progress.clear()
        # Without an output the store is in memory, and gone with the process.
        is_kept = store.path != Path(":memory:")
        kept = f", kept in {store.path}; the same command goes on from there" if is_kept else ""
        raise KeyboardInterrupt(f"{len(grid.finished(store.rows()))} of {total} {noun} done{kept}") from None
    if done < total:
        progress.close()
    return rows


def check_none_failed(grid: "Grid", store: "Store", noun: str = "cells") -> None:
    """Raise `AllocoptError` where cells have failed."""
    from allocopt.errors import AllocoptError

    faults = store.faults()
    failed = [(cell.label, faults[cell.key]) for cell in grid.cells if cell.key in faults]
    if failed:
        label, reason = failed[0]
        count = f"{len(failed)} of {len(grid.cells)} {noun} failed, such as {label}: {reason}"
        raise AllocoptError(f"{count}; the same command tries them again")


def whole_numbers(text: str) -> tuple[int, ...]:
    """Return comma-separated seeds, each once."""
    from allocopt.errors import UsageError

    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"--seeds must be whole numbers with commas between them, not {text!r}") from None
    if min(numbers) < 0:
        raise UsageError(f"--seeds must not be negative: {text}")
    return numbers
