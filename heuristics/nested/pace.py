"""How many steps a search takes between two looks at the clock, and at which temperatures."""

import time
from collections.abc import Callable

from allocopt.solving.budget import Clock

FIRST_SLICE, LONGEST_SLICE = 16, 4096
"""Steps of the first slice under a time limit, from which the speed is known, and of any slice."""

SHARE = 0.1
"""Share of the time left that a slice may take."""

LONGEST_S = 0.02
"""Seconds that a slice shall take at most."""

REPORTING = 0.05
"""Share of the time that may go into offering solutions on the way."""


class Pace:
    """Plans the slices of a search that cools from its first step to its last, or to the end of its time.

    Parameters
    ----------
    clock
        The running clock. Without a limit the plan depends on the number of steps alone.
    steps
        Steps to be taken.
    hottest, coldest
        First and last temperature.
    """

    def __init__(self, clock: Clock, steps: int, hottest: float, coldest: float) -> None:
        self.steps_left = steps
        self._clock = clock
        self._steps = steps
        self._hottest, self._fall = hottest, coldest / hottest
        self._began = time.perf_counter()
        self._time_s = clock.remaining()
        self._reporting_s = 0.0

    def done(self) -> bool:
        """Whether all steps are taken, or the time is up."""
        return self.steps_left == 0 or self._clock.expired()

    def next_slice(self) -> tuple[int, float, float]:
        """Return the number of steps of the next slice, and the temperatures at its begin and end."""
        begin = self._progress(0.0)
        count, seconds = self._planned()
        count = min(count, self.steps_left)
        self.steps_left -= count
        end = max(begin, self._progress(seconds))
        return count, self._temperature(begin), self._temperature(end)

    def may_report(self) -> bool:
        """Whether offering solutions has not taken too much of the time so far."""
        return self._reporting_s <= REPORTING * self._elapsed()

    def reported(self, report: Callable[[], None]) -> None:
        """Report, and note how long it takes."""
        before = time.perf_counter()
        report()
        self._reporting_s += time.perf_counter() - before

    def _elapsed(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self._began

    def _planned(self) -> tuple[int, float]:
        """Return the steps of the next slice, and the seconds they should take."""
        if self._clock.seconds is None:
            return LONGEST_SLICE, 0.0
        taken, elapsed = self._steps - self.steps_left, self._elapsed()
        if taken == 0:
            return FIRST_SLICE, 0.0
        per_step = elapsed / taken
        seconds = min(LONGEST_S, SHARE * self._clock.remaining())
        count = min(LONGEST_SLICE, max(FIRST_SLICE, int(seconds / per_step)))
        return count, count * per_step

    def _progress(self, seconds: float) -> float:
        """Share of the search that is done so many seconds from now: of its steps or of its time, what is more."""
        of_steps = 1.0 - self.steps_left / self._steps
        of_time = (self._elapsed() + seconds) / self._time_s if self._time_s > 0 else 1.0
        return min(1.0, max(of_steps, of_time))

    def _temperature(self, progress: float) -> float:
        """Temperature at a share of the search."""
        return float(self._hottest * self._fall**progress)
