"""What a solve may spend: an immutable specification, and the clock that each solve starts from it."""

import math
import time
from dataclasses import dataclass

from allocopt.errors import UsageError

ENDLESS_S = 1e9
MOST_ITERATIONS = 2**62


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on one solve.

    Parameters
    ----------
    seconds
        Wall-clock limit, model building included; None for no limit, which more than 10^9 s are taken for.
    iterations
        Limit on a solver's own steps; None for the solver's default. With iterations and without seconds the
        answer depends on the seed alone.

    Raises
    ------
    UsageError
        If a limit is out of range.
    """

    seconds: float | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"the time limit is {self.seconds} s, must be positive")
        if self.seconds is not None and self.seconds > ENDLESS_S:
            object.__setattr__(self, "seconds", None)
        if self.iterations is not None and not 1 <= self.iterations <= MOST_ITERATIONS:
            raise UsageError(f"the iteration limit is {self.iterations}, must be within 1 .. {MOST_ITERATIONS}")

    def start(self) -> "Clock":
        """Start the clock of one solve."""
        return Clock(self.seconds, time.perf_counter())


@dataclass(frozen=True, slots=True)
class Clock:
    """The running time of one solve.

    Parameters
    ----------
    seconds
        The limit, or None.
    started
        Reading of `time.perf_counter` at the start.
    """

    seconds: float | None
    started: float

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def remaining(self) -> float:
        """Seconds left, never negative; infinity without a limit."""
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed())

    def expired(self) -> bool:
        """Whether the limit has passed."""
        return self.remaining() <= 0.0
