"""The engine of all grids: runs the cells that have no row yet, and stores each row as soon as it is measured."""

import io
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import ClassVar, Protocol, TextIO

from allocopt.experiments.cells import FAILED, Answer, Cell, Grid, Row
from allocopt.experiments.store import Status, Store
from allocopt.interruption import interruption_held

_EVERY_S = 10.0  # Least time between two lines if the output is not a terminal
_WIDTH = 79  # Greatest width of the line on a terminal


class _Progress:
    """Reports the progress of a run: in one line that is rewritten on a terminal, in occasional lines otherwise."""

    def __init__(self, total: int, done: int, out: TextIO, noun: str) -> None:
        self._total = total
        self._before = self._done = done
        self._failed = 0
        self._out = out
        self._noun = noun
        self._is_terminal = out.isatty()
        self._begun = self._told = time.monotonic()

    def finished(self, *, failed: bool = False) -> None:
        """Count a cell."""
        self._done += 1
        self._failed += failed

    def remark(self, text: str) -> None:
        """Print a line that stays."""
        self.clear()
        print(f"allocopt: {text}", file=self._out, flush=True)

    def tell(self) -> None:
        """Print the progress; in a file, only if `_EVERY_S` seconds have passed since the last line."""
        now = time.monotonic()
        if self._is_terminal:
            width = self._width()
            print(f"\r{self._line():{width}.{width}}", end="", file=self._out, flush=True)
        elif now - self._told >= _EVERY_S:
            self.remark(self._line())
            self._told = now

    def close(self) -> None:
        """Print the last count; in a file, only if progress has been printed before."""
        if self._is_terminal or self._told > self._begun:
            self.remark(self._line())

    def clear(self) -> None:
        """Clear the progress line of a terminal before another line is printed."""
        if self._is_terminal:
            print("\r" + " " * self._width() + "\r", end="", file=self._out, flush=True)

    def _line(self) -> str:
        gone_s = time.monotonic() - self._begun
        return Status(self._total, self._done, self._failed, 0, self._before, gone_s).line(self._noun)

    def _width(self) -> int:
        # The size of the terminal may have changed.
        try:
            columns = os.get_terminal_size(self._out.fileno()).columns
        except (OSError, ValueError):
            return _WIDTH
        # Terminals that do not know their width report 0.
        return max(1, min(_WIDTH, columns - 1)) if columns else _WIDTH


_TICK_S = 0.5  # Longest time between two checks of deadlines
_SOON_S = 0.01  # The same while rows wait to be written


class Executor(Protocol):
    """Runs cells of a grid; a cell is identified by its position in the grid."""

    blocks: ClassVar[bool]
    """Whether `news` may take as long as a cell, regardless of its timeout."""

    def has_room(self) -> bool:
        """Whether another cell can begin."""

    def submit(self, number: int) -> None:
        """Begin a cell."""

    def news(self, timeout_s: float) -> Sequence[tuple[int, Answer]]:
        """Wait for answers of cells that have begun; return none if none arrives within ``timeout_s`` seconds."""

    def stop(self, number: int) -> None:
        """End a cell that has begun, without an answer."""


class Here(Executor):
    """Runs one cell after the other in this process, each in a context ``around``; the error of a cell ends the run."""

    blocks: ClassVar[bool] = True

    def __init__(self, grid: Grid, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._grid = grid
        self._around = around
        self._begun: list[int] = []

    def has_room(self) -> bool:
        return not self._begun

    def submit(self, number: int) -> None:
        self._begun.append(number)

    def news(self, timeout_s: float) -> Sequence[tuple[int, Answer]]:
        number = self._begun.pop()
        cell = self._grid.cells[number]
        with self._around():
            return [(number, Answer(cell.task.run(self._grid.inputs[cell.source])))]

    def stop(self, number: int) -> None:
        """Do nothing, as no cell runs between two steps."""


def run(
    grid: Grid,
    store: Store,
    executor: Callable[[], AbstractContextManager[Executor]],
    *,
    on_row: Callable[[Cell, Row], None] | None = None,
    out: TextIO | None = None,
    noun: str = "cells",
) -> list[Row]:
    """Run the cells that have no row in a store, report progress to a stream, and return the rows of all cells.

    A cell whose worker dies is run again; it fails after as many attempts as the grid allows. A cell that takes longer
    than its deadline fails. Cells that failed in an earlier run are tried again. ``on_row`` is called with the rows of
    cells that did not fail, in the order of the grid, as soon as all rows before them are there.
    """
    total, done = len(grid.cells), len(grid.finished(store.rows()))
    progress = _Progress(total, done, out or io.StringIO(), noun)
    if 0 < done < total:
        progress.remark(f"{done} of {total} {noun} are in {store.path}")
    try:
        state = _Run(grid, store, progress, on_row)
        if done < total:
            # If all cells are finished, start no processes and connect to no cluster.
            with executor() as runs:
                state.go_through(runs)
            progress.close()
    except KeyboardInterrupt:
        progress.clear()
        # Without an output the store is in memory and ends with the process.
        is_kept = store.path != Path(":memory:")
        kept = f", kept in {store.path}; the same command goes on from there" if is_kept else ""
        raise KeyboardInterrupt(f"{len(grid.finished(store.rows()))} of {total} {noun} done{kept}") from None
    return [state.rows[number] for number in range(total)]


class _Run:
    def __init__(
        self, grid: Grid, store: Store, progress: _Progress, on_row: Callable[[Cell, Row], None] | None
    ) -> None:
        self._cells, self._attempts = grid.cells, grid.attempts
        self._store, self._progress, self._on_row = store, progress, on_row
        # Failed cells have no valid row, so they are tried again.
        kept = store.rows()
        finished = grid.finished(kept)
        self.rows = {n: kept[cell.key] for n, cell in enumerate(grid.cells) if cell.key in finished}
        self._waiting = deque(number for number in range(len(grid.cells)) if number not in self.rows)
        self._begun: dict[int, float] = {}
        self._tries: Counter[int] = Counter()
        self._failed: set[int] = set()
        self._n_told = 0
        if self._waiting:
            store.begin(len(grid.cells), len(self.rows))
        self._tell()

    def go_through(self, executor: Executor) -> None:
        # Ctrl-C takes effect at the end of a step, so that every started worker is known. A cell in this process is
        # interrupted at once.
        held: AbstractContextManager[Callable[[], bool]] = nullcontext(bool) if executor.blocks else interruption_held()
        with held as is_interrupted:
            while self._waiting or self._begun:
                if is_interrupted():
                    raise KeyboardInterrupt
                while self._waiting and executor.has_room():
                    number = self._waiting.popleft()
                    self._tries[number] += 1
                    self._begun[number] = time.monotonic()
                    executor.submit(number)
                # Workers get their next cells first, so that rows are written while these run. If cells run in this
                # process, rows are written before the next cell, which may take hours.
                is_written = self._store.commit(len(self._begun), at_once=executor.blocks)
                for number, answer in executor.news(_TICK_S if is_written else _SOON_S):
                    del self._begun[number]
                    tries, allowed = self._tries[number], self._attempts
                    if answer.measured is not None:
                        self._keep(number, answer.measured)
                    elif answer.is_lost and tries < allowed:
                        attempt = f"attempt {tries + 1} of {allowed}"
                        self._progress.remark(f"{self._cells[number].label}: {answer.fault}; {attempt}")
                        self._waiting.append(number)
                    else:
                        last = f", in the last of {allowed} attempts" if answer.is_lost else ""
                        self._fail(number, f"{answer.fault}{last}")
                now = time.monotonic()
                for number, begun in list(self._begun.items()):
                    deadline_s = self._cells[number].task.deadline_s
                    if deadline_s is not None and now - begun > deadline_s:
                        executor.stop(number)
                        del self._begun[number]
                        self._fail(number, f"it did not answer within {deadline_s:g} s, so its worker was ended")
                self._tell()
                self._progress.tell()
        self._store.commit(0, at_once=True)

    def _fail(self, number: int, fault: str) -> None:
        self._progress.remark(f"{self._cells[number].label} failed: {fault}")
        self._failed.add(number)
        self._keep(number, {"status": FAILED, "error": fault}, fault)

    def _keep(self, number: int, measured: Row, fault: str | None = None) -> None:
        cell = self._cells[number]
        self.rows[number] = cell.row(measured)
        self._store.add(cell, self.rows[number], fault)
        self._progress.finished(failed=fault is not None)

    def _tell(self) -> None:
        while self._n_told in self.rows:
            number, self._n_told = self._n_told, self._n_told + 1
            if self._on_row is not None and number not in self._failed:
                # Clear the progress line, because the row may be printed in its place.
                self._progress.clear()
                self._on_row(self._cells[number], self.rows[number])
