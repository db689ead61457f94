"""How many steps the time allows, and how long the search goes on between two looks at the clock."""

import math
import time

from allocopt.solving.budget import Clock

SLICE_S = 0.005
FIRST_STEPS = 16
"""Steps after which their speed is known."""
SHORTEST_S, LONGEST_S = 1e-7, 5e-6
"""What a step takes at least; and at most, where the time is so short that few can be taken to learn it."""


class Pace:
    """Counts the steps of a search, and foretells how many are left.

    Parameters
    ----------
    clock
        The running clock.
    steps
        Most steps.
    per_slice
        Steps between two looks at the clock where there is no time limit: what is found then depends on the seed alone.
    reserve_s
        Time that is needed after the last step, in seconds.
    """

    def __init__(self, clock: Clock, steps: int, per_slice: int, reserve_s: float) -> None:
        self.done = 0
        self._clock = clock
        self.steps = steps
        self._per_slice = per_slice
        self._reserve_s = reserve_s
        self._step_s = SLICE_S
        self._started = 0.0

    def seconds_left(self) -> float:
        """Seconds until the last step has to be done, never negative; infinity without a limit."""
        return max(0.0, self._clock.remaining() - self._reserve_s)

    def left(self) -> int:
        """Say how many steps are left; those that the time allows are estimated from those that are done."""
        left = self.steps - self.done
        seconds = self.seconds_left()
        return left if math.isinf(seconds) else min(left, int(seconds / self._step_s))

    def first_slice(self) -> int:
        """Say how many steps to take to learn their speed, none where there is no time limit; they begin now."""
        self._started = time.perf_counter()
        if self._clock.seconds is None:
            return 0
        return min(FIRST_STEPS, self.steps, int(self.seconds_left() / LONGEST_S))

    def slice(self, most: int) -> int:
        """Say how many of the next ``most`` steps to take before looking at the clock; they begin now."""
        self._started = time.perf_counter()
        per_slice = self._per_slice if self._clock.seconds is None else max(1, int(SLICE_S / self._step_s))
        return min(most, per_slice)

    def took(self, steps: int) -> None:
        """Note that the steps of the last slice are done."""
        if steps > 0:
            seconds = (time.perf_counter() - self._started) / steps
            self._step_s = max(SHORTEST_S, seconds if self.done == 0 else 0.8 * self._step_s + 0.2 * seconds)
            self.done += steps
