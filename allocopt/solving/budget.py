"""The budget of a solve, which is immutable, and the clock that each solve starts from it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from allocopt.errors import UsageError
from allocopt.values import LARGEST_INTEGER, converted

ENDLESS_S = 1e9
MOST_ITERATIONS = LARGEST_INTEGER
# Time limit of a part of a solve if no time is left. Limits must be positive; with this one, the part ends when it
# first checks its clock.
LEAST_S = 1e-9


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on one solve; raises `UsageError` if one is not a number or out of range.

    With a limit on iterations and none on seconds, the answer depends only on the seed.

    Parameters
    ----------
    seconds
        Limit on wall-clock time, including building of models; None, or more than 10^9 s, for no limit.
    iterations
        Limit on the solver's own steps; None for the solver's default.
    gap
        Relative gap between incumbent and proven bound at which to stop, in [0, 1); 0 asks for a proof.
    includes_compiling
        Whether compiling kernels, which happens once on a machine, counts as solve time. If not, the clock starts when
        they are ready.
    is_cancelled
        Function that is called while the solve runs. If it returns True, the solve ends as if its time were up.
    """

    seconds: float | None = None
    iterations: int | None = None
    gap: float = 0.0
    includes_compiling: bool = False
    is_cancelled: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", converted("the time limit", self.seconds, float | None))
        object.__setattr__(self, "iterations", converted("the iteration limit", self.iterations, int | None))
        object.__setattr__(self, "gap", converted("the gap", self.gap, float))
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"the time limit is {self.seconds} s, must be positive")
        if self.seconds is not None and self.seconds > ENDLESS_S:
            object.__setattr__(self, "seconds", None)
        if self.iterations is not None and self.iterations < 1:
            raise UsageError(f"the iteration limit is {self.iterations}, must be within 1 .. {MOST_ITERATIONS}")
        if not 0.0 <= self.gap < 1.0:
            raise UsageError(f"the gap is {self.gap}, must be a fraction from 0 to below 1")

    def start(self) -> "Clock":
        """Start the clock of one solve."""
        return Clock(
            seconds=self.seconds,
            started=time.perf_counter(),
            includes_compiling=self.includes_compiling,
            is_cancelled=self.is_cancelled,
        )


@dataclass(slots=True)
class Clock:
    """Running time of one solve, which every solver checks."""

    seconds: float | None  # the limit
    started: float  # value of `time.perf_counter`
    stopped: bool = False  # whether the solve is to end before its limit, because the answer is good enough
    includes_compiling: bool = False  # as in `Budget`, like the next field
    is_cancelled: Callable[[], bool] | None = None
    cancelled: bool = False  # whether `is_cancelled` has returned True

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.started

    def remaining(self) -> float:
        """Return the seconds left, never negative; infinity without a limit."""
        if self.is_cancelled is not None and not self.cancelled:
            self.cancelled = self.is_cancelled()
        if self.stopped or self.cancelled:
            return 0.0
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed())

    def expired(self) -> bool:
        """Return whether the time is up."""
        return self.remaining() <= 0.0

    def grant(self, share: float = 1.0, iterations: int | None = None, gap: float = 0.0) -> Budget:
        """Return the budget of a part of the solve that may use ``share`` of the remaining time."""
        seconds = None if self.seconds is None else max(LEAST_S, share * self.remaining())
        return Budget(seconds, iterations, gap, self.includes_compiling, self.is_cancelled)
