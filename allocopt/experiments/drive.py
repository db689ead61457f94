"""Has the cells of a grid run that are not finished yet, and keeps what comes."""

import time
from collections import Counter, deque
from collections.abc import Callable

from allocopt.experiments.cells import FAILED, Grid
from allocopt.experiments.executor import Executor, Lost, News
from allocopt.experiments.progress import Progress
from allocopt.experiments.store import Store
from allocopt.experiments.work import Measured

TICK_S = 0.5
"""Seconds between two looks at the time, at most."""


class Drive:
    """Runs a grid; see `run`.

    Parameters
    ----------
    grid
        The cells.
    store
        Where finished ones are kept.
    executor
        Who runs them.
    progress
        Who is told.
    interrupted
        Asked between two steps; yes ends the run.
    """

    def __init__(
        self, grid: Grid, store: Store, executor: Executor, progress: Progress, interrupted: Callable[[], bool]
    ) -> None:
        self._grid = grid
        self._store = store
        self._executor = executor
        self._progress = progress
        self._interrupted = interrupted
        finished = grid.finished(store.rows())
        self._waiting = deque(number for number, cell in enumerate(grid.cells) if cell.key not in finished)
        self._begun: dict[int, float] = {}
        self._tries: Counter[int] = Counter()

    def run(self) -> None:
        """Run what is left.

        A cell whose worker dies is run again, and fails after so many attempts as the grid allows. A cell that takes
        longer than its deadline fails. Cells that have failed in an earlier run are tried again.
        """
        while self._waiting or self._begun:
            if self._interrupted():
                raise KeyboardInterrupt
            while self._waiting and self._executor.has_room():
                number = self._waiting.popleft()
                self._tries[number] += 1
                self._begun[number] = time.monotonic()
                self._executor.submit(number, self._grid.cells[number])
            for news in self._executor.news(TICK_S):
                del self._begun[news.number]
                self._hear(news)
            self._stop_late()
            self._progress.tell()

    def _stop_late(self) -> None:
        """Give up the cells whose deadlines are over."""
        now = time.monotonic()
        for number, begun in list(self._begun.items()):
            deadline_s = self._grid.cells[number].task.deadline_s
            if deadline_s is not None and now - begun > deadline_s:
                self._executor.stop(number)
                del self._begun[number]
                self._fail(number, f"it did not answer within {deadline_s:g} s, so its worker was ended")

    def _hear(self, news: News) -> None:
        """Keep a row, or have a cell run again."""
        cell, outcome = self._grid.cells[news.number], news.outcome
        if isinstance(outcome, Measured):
            self._keep(news.number, cell.row(outcome.values))
            return
        if not isinstance(outcome, Lost):
            self._fail(news.number, outcome.reason)
            return
        tries, allowed = self._tries[news.number], self._grid.attempts
        if tries < allowed:
            self._progress.remark(f"{cell.label}: {outcome.reason}; attempt {tries + 1} of {allowed}")
            self._waiting.append(news.number)
        else:
            self._fail(news.number, f"{outcome.reason}, in the last of {allowed} attempts")

    def _fail(self, number: int, reason: str) -> None:
        """Keep the row of a cell that could not be run."""
        cell = self._grid.cells[number]
        self._progress.remark(f"{cell.label} failed: {reason}")
        self._keep(number, cell.failed(reason))

    def _keep(self, number: int, row: dict[str, object]) -> None:
        """Keep a row and count it."""
        cell = self._grid.cells[number]
        self._store.add(cell.key, cell.identity, row)
        self._progress.finished(failed=row.get("status") == FAILED)
