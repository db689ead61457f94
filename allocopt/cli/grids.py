"""Running the grids of ``bench``, ``what-if``, ``reproduce`` and ``sweep``: store, executor, progress, failures."""

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
    from allocopt.cli.terminal import prints_on_stderr
    from allocopt.experiments.cells import digest
    from allocopt.experiments.engine import Here, run
    from allocopt.experiments.store import Store
    from allocopt.experiments.workers import LocalWorkers
    from allocopt.report.provenance import provenance

    # Where any of this differs, rows of an earlier run answer another question, and the store refuses.
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
