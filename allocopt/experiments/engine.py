"""The engine of all grids: runs the cells that have no row yet, and keeps each row as soon as it is there."""

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

_EVERY_S = 10.0  # Between two lines where they are kept, at least
_WIDTH = 79  # Columns of the line on a terminal, at most


class _Progress:
    """Tells how far a run is: in a line that is rewritten on a terminal, in one now and then elsewhere."""

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
        """Print how far the run is, unless that was printed a moment ago."""
        now = time.monotonic()
        if self._is_terminal:
            width = self._width()
            print(f"\r{self._line():{width}.{width}}", end="", file=self._out, flush=True)
        elif now - self._told >= _EVERY_S:
            self.remark(self._line())
            self._told = now

    def close(self) -> None:
        """Print the last count, unless the run was too short for anything to be printed."""
        if self._is_terminal or self._told > self._begun:
            self.remark(self._line())

    def clear(self) -> None:
        """Clear the line of the terminal for one that stays."""
        if self._is_terminal:
            print("\r" + " " * self._width() + "\r", end="", file=self._out, flush=True)

    def _line(self) -> str:
        gone_s = time.monotonic() - self._begun
        return Status(self._total, self._done, self._failed, 0, self._before, gone_s).line(self._noun)

    def _width(self) -> int:
        # The terminal may have become another since.
        try:
            columns = os.get_terminal_size(self._out.fileno()).columns
        except (OSError, ValueError):
            return _WIDTH
        # Terminals that do not know say 0.
        return max(1, min(_WIDTH, columns - 1)) if columns else _WIDTH


_TICK_S = 0.5  # Between two looks at deadlines, at most
_SOON_S = 0.01  # The same while rows wait to be written


class Executor(Protocol):
    """Runs cells of a grid, which are named by their places in it."""

    blocks: ClassVar[bool]
    """Whether `news` may take as long as a cell, whatever its time limit."""

    def has_room(self) -> bool:
        """Whether another cell can begin."""

    def submit(self, number: int) -> None:
        """Begin a cell."""

    def news(self, timeout_s: float) -> Sequence[tuple[int, Answer]]:
        """Wait for answers of cells that have begun; none if none comes in time."""

    def stop(self, number: int) -> None:
        """End a cell that has begun; it gives no answer."""


class Here(Executor):
    """Runs one cell after the other in this process, with a context ``around`` it; its error ends the run."""

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
        """Do nothing, for between two steps no cell runs."""


def run(
    grid: Grid,
    store: Store,
    executor: Callable[[], AbstractContextManager[Executor]],
    *,
    on_row: Callable[[Cell, Row], None] | None = None,
    out: TextIO | None = None,
    noun: str = "cells",
) -> list[Row]:
    """Run the cells that have no row in a store, with progress in a stream, and return the rows of all.

    A cell whose worker dies is run again, and fails after as many attempts as the grid allows. A cell that takes longer
    than its deadline fails. Cells that failed in an earlier run are tried again. ``on_row`` is called with every row
    but those of failed cells, in the order of the grid, once all before it are there.
    """
    total, done = len(grid.cells), len(grid.finished(store.rows()))
    progress = _Progress(total, done, out or io.StringIO(), noun)
    if 0 < done < total:
        progress.remark(f"{done} of {total} {noun} are in {store.path}")
    try:
        state = _Run(grid, store, progress, on_row)
        if done < total:
            # Where all is finished, neither processes nor a cluster are asked for.
            with executor() as runs:
                state.go_through(runs)
            progress.close()
    except KeyboardInterrupt:
        progress.clear()
        # Without an output the store is in memory, and gone with the process.
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
        # Rows of failed cells do not count, so these are tried again.
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
        # Ctrl-C waits for the end of a step, so that nothing is started and not known; in this process it cuts a cell.
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
                # Workers get their next cells first, so that rows reach the disk while these run. In this process rows
                # are written before the next cell, which may take hours.
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
                # What is printed of a row goes where the line of progress stood.
                self._progress.clear()
                self._on_row(self._cells[number], self.rows[number])
