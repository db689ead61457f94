"""Has the cells of a grid run that are not finished yet, and keeps what comes."""

from collections import Counter, deque
from collections.abc import Callable

from allocopt.sweep.cells import FAILED, Grid
from allocopt.sweep.executor import Executor, Lost, News
from allocopt.sweep.progress import Progress
from allocopt.sweep.store import Store
from allocopt.sweep.work import Measured

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
    check
        Called between two steps; may raise to end the run.
    """

    def __init__(
        self, grid: Grid, store: Store, executor: Executor, progress: Progress, check: Callable[[], None]
    ) -> None:
        self._grid = grid
        self._store = store
        self._executor = executor
        self._progress = progress
        self._check = check
        finished = grid.finished(store.rows())
        self._waiting = deque(number for number, cell in enumerate(grid.cells) if cell.key not in finished)
        self._running = 0
        self._tries: Counter[int] = Counter()

    def run(self) -> None:
        """Run what is left.

        A cell whose worker dies is run again, and fails after so many attempts as the grid allows. Cells that have
        failed in an earlier run are tried again.
        """
        while self._waiting or self._running:
            self._check()
            while self._waiting and self._executor.has_room():
                number = self._waiting.popleft()
                self._tries[number] += 1
                self._running += 1
                self._executor.submit(number, self._grid.cells[number])
            for news in self._executor.news(TICK_S):
                self._running -= 1
                self._hear(news)
            self._progress.tell()

    def _hear(self, news: News) -> None:
        """Keep a row, or have a cell run again."""
        cell, outcome = self._grid.cells[news.number], news.outcome
        if isinstance(outcome, Measured):
            self._keep(news.number, cell.row(outcome.values))
            return
        if not isinstance(outcome, Lost):
            self._progress.remark(f"{cell.label} failed: {outcome.reason}")
            self._keep(news.number, cell.failed(outcome.reason))
            return
        tries, allowed = self._tries[news.number], self._grid.attempts
        if tries < allowed:
            self._progress.remark(f"{cell.label}: {outcome.reason}; attempt {tries + 1} of {allowed}")
            self._waiting.append(news.number)
        else:
            reason = f"{outcome.reason}, in the last of {allowed} attempts"
            self._progress.remark(f"{cell.label} failed: {reason}")
            self._keep(news.number, cell.failed(reason))

    def _keep(self, number: int, row: dict[str, object]) -> None:
        """Keep a row and count it."""
        cell = self._grid.cells[number]
        self._store.add(cell.key, cell.identity, row)
        self._progress.finished(failed=row.get("status") == FAILED)
