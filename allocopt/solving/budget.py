"""What a solve may spend: an immutable specification, and the clock that each solve starts from it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from allocopt.errors import UsageError
from allocopt.values import LARGEST_INTEGER, converted

ENDLESS_S = 1e9
MOST_ITERATIONS = LARGEST_INTEGER
# What a part is granted where nothing is left, for a limit is positive: it ends where it first looks at its clock.
LEAST_S = 1e-9


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on one solve; raises `UsageError` if one is no number or out of range.

    With iterations and without seconds the answer depends on the seed only.

    Parameters
    ----------
    seconds
        Wall clock, model building included; None for no limit, and so above 10^9 s.
    iterations
        Limit on the solver's own steps; None for the solver's default.
    gap
        Relative gap between incumbent and proven bound at which to stop, in [0, 1); 0 asks for a proof.
    includes_compiling
        Whether compiling kernels, which happens once on a machine, counts as time of the solve. If not, the clock
        starts when they are ready.
    is_cancelled
        Called while the solve runs. When it returns True the solve ends, as soon as if its time were up.
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
    """Running time of one solve, which every solver watches."""

    seconds: float | None  # the limit
    started: float  # reading of `time.perf_counter`
    stopped: bool = False  # whether the time is up whatever the limit says, the answer being good enough
    includes_compiling: bool = False  # these two as in `Budget`
    is_cancelled: Callable[[], bool] | None = None
    cancelled: bool = False  # whether `is_cancelled` has returned True

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def remaining(self) -> float:
        """Seconds left, never negative; infinity without a limit."""
        if self.is_cancelled is not None and not self.cancelled:
            self.cancelled = self.is_cancelled()
        if self.stopped or self.cancelled:
            return 0.0
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.elapsed())

    def expired(self) -> bool:
        """Whether the time is up."""
        return self.remaining() <= 0.0

    def grant(self, share: float = 1.0, iterations: int | None = None, gap: float = 0.0) -> Budget:
        """Return the budget of a part of the solve, which may use this share of the time that is left."""
        seconds = None if self.seconds is None else max(LEAST_S, share * self.remaining())
        return Budget(seconds, iterations, gap, self.includes_compiling, self.is_cancelled)
