"""Temperatures of the search: cycles of falling temperatures, each twice as long as the one before."""

from dataclasses import dataclass
from math import inf


@dataclass(slots=True)
class Cooling:
    """Falls geometrically to the coldest temperature in every cycle; the last cycle ends with the search.

    Parameters
    ----------
    hottest, coldest
        First and last temperature of a cycle, in hops.
    cycle
        Steps of the first cycle.
    full
        Steps that a cycle needs to begin at the hottest temperature; a shorter one begins colder, in proportion.
    idle_cycles
        Number of cycles, up to now, that have found nothing better.
    """

    hottest: float
    coldest: float
    cycle: int
    full: int
    idle_cycles: int = 0
    _temperature: float | None = None
    _done: int = 0
    _best: float = -inf

    def rest(self, left: int) -> int:
        """Say how many steps the present cycle still has, of ``left`` that the search has."""
        rest = self.cycle - self._done
        # The next cycle would have to fit, too; a cycle that was stretched to the end has none after it.
        return rest if rest > 0 and left - rest >= 2 * self.cycle else left

    def temperature(self, rest: int) -> float:
        """Say how hot it is, ``rest`` steps before the end of the cycle."""
        if self._temperature is None:
            self._temperature = max(self.coldest, self.hottest * min(1.0, rest / self.full))
        return self._temperature

    def factor(self, rest: int) -> float:
        """By what the temperature falls in each of the ``rest`` steps until the end of the cycle."""
        return float((self.coldest / self.temperature(rest)) ** (1 / rest))

    def took(self, steps: int, temperature: float, rest: int, best: float) -> None:
        """Note that so many of the ``rest`` steps of the cycle are done, and the best saving; then it is hot again."""
        self._done += steps
        # Rounding must not take it below.
        self._temperature = max(self.coldest, temperature)
        if steps == rest:
            self.idle_cycles = 0 if best > self._best else self.idle_cycles + 1
            self._best = best
            self.cycle, self._done, self._temperature = 2 * self.cycle, 0, None
