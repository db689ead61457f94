"""Run the grids of ``bench``, ``what-if``, ``reproduce`` and ``sweep``: store, executor, progress, failures."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from allocopt.experiments.cells import Cell, Grid, Row
    from allocopt.experiments.store import Store

Workers = Annotated[
    int | None,
    typer.Option(min=1, max=4096, metavar="N", help="Use N processes of one thread each; default: this process."),
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
    """Run all cells of a grid; the rows depend on a setting, this version and this machine.

    An interrupted run continues from its store. The caller writes the table of rows within the context; the store is
    removed afterwards, so that a crash in between loses nothing. Raises `AllocoptError` if cells have failed.
    """
    from allocopt.cli.terminal import prints_on_stderr
    from allocopt.experiments.cells import digest
    from allocopt.experiments.engine import Here, run
    from allocopt.experiments.store import Store
    from allocopt.experiments.workers import LocalWorkers
    from allocopt.report.provenance import provenance

    # If any of this differs, the rows of an earlier run do not apply, and the store refuses to continue.
    facts = provenance()
    cells = {"inputs": sorted(grid.inputs), "cells": digest([cell.label for cell in grid.cells])}
    with closing(Store(output, facts, {**setting, **cells, **facts})) as store:
        here = nullcontext(Here(grid, prints_on_stderr))
        run(
            grid,
            store,
            lambda: here if workers is None else closing(LocalWorkers(grid, workers, fresh=fresh)),
            on_row=take,
            out=sys.stderr,
            noun=noun,
        )
        check_none_failed(grid, store, noun)
        yield
        store.remove()


def check_none_failed(grid: "Grid", store: "Store", noun: str = "cells") -> None:
    """Raise `AllocoptError` if cells have failed."""
    from allocopt.errors import AllocoptError

    faults = store.faults()
    failed = [(cell.label, faults[cell.key]) for cell in grid.cells if cell.key in faults]
    if failed:
        label, reason = failed[0]
        count = f"{len(failed)} of {len(grid.cells)} {noun} failed; the first is {label}: {reason}"
        raise AllocoptError(f"{count}; run the same command again to repeat only these")


def whole_numbers(text: str) -> tuple[int, ...]:
    """Return comma-separated seeds without duplicates."""
    from allocopt.errors import UsageError

    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"--seeds must be whole numbers with commas between them, not {text!r}") from None
    if min(numbers) < 0:
        raise UsageError(f"--seeds must not be negative: {text}")
    return numbers
