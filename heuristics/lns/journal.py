"""When the best state of the search becomes an allocation."""

import math
import time

from allocopt.solving.result import EQUAL_RELATIVE
from allocopt.solving.run import Run
from heuristics.lns.beginning import parts_of
from heuristics.lns.start import Window
from heuristics.lns.state import State

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
    state
        Where the search is.
    takes_s
        How long it takes to offer an allocation, about, in seconds.
    """

    def __init__(self, window: Window, run: Run, state: State, takes_s: float) -> None:
        self._window = window
        self._run = run
        self._state = state
        self._savings = parts_of(state)[2].savings
        known = run.objective is not None and run.objective <= window.cost(self.best)
        self._offered = self.best if known else -math.inf
        self._took_s = takes_s
        self._at = time.perf_counter()

    @property
    def best(self) -> float:
        """What the best state saves, in hops."""
        return float(self._savings[1])

    def look(self) -> bool:
        """Offer the best state if it is time, or if it is proved optimal; say whether it is."""
        if self.best <= self._offered:
            return False
        proved = self.is_proved()
        if proved or SHARE * (time.perf_counter() - self._at) > self._took_s:
            self.offer()
        return proved and self._run.is_proved()

    def offer(self) -> None:
        """Offer the best state if it is better than the last one offered."""
        if self.best <= self._offered:
            return
        started = time.perf_counter()
        self._offered = self.best
        self._run.offer(self._window.allocation(self._state))
        self._at = time.perf_counter()
        self._took_s = self._at - started

    def is_proved(self) -> bool:
        """Whether the best state costs what the bound of the run is."""
        cost = self._window.cost(self.best)
        return self._run.bound is not None and cost - self._run.bound <= EQUAL_RELATIVE * max(1e-9, abs(cost))
