"""When the best state of the search becomes an allocation."""

import time

from allocopt.solving.result import EQUAL_RELATIVE
from allocopt.solving.run import Run
from heuristics.lns.start import Window
from heuristics.lns.state import Search

SHARE = 0.05
"""Share of the time that goes into allocations that the search goes on to improve."""


class Journal:
    """Offers the best state at the end, and at times before.

    Parameters
    ----------
    window
        The problem.
    run
        Who takes the allocations.
    search
        Where the search is.
    """

    def __init__(self, window: Window, run: Run, search: Search) -> None:
        self._window = window
        self._run = run
        self._search = search
        self._offered = float(search.savings[1])
        self._took_s = 0.0
        self._at = time.perf_counter()

    def look(self) -> bool:
        """Offer the best state if it is time, or if it is proved optimal; say whether it is."""
        if self._search.savings[1] <= self._offered:
            return False
        proved = self._is_proved()
        if proved or SHARE * (time.perf_counter() - self._at) > self._took_s:
            self.offer()
        return proved and self._run.is_proved()

    def offer(self) -> None:
        """Offer the best state if it is better than the last one offered."""
        if self._search.savings[1] <= self._offered:
            return
        started = time.perf_counter()
        self._offered = float(self._search.savings[1])
        self._run.offer(self._window.allocation(self._search.best))
        self._at = time.perf_counter()
        self._took_s = self._at - started

    def _is_proved(self) -> bool:
        """Whether the best state costs what the bound of the run is."""
        cost = self._window.cost(float(self._search.savings[1]))
        return self._run.bound is not None and cost - self._run.bound <= EQUAL_RELATIVE * max(1e-9, abs(cost))
