"""The choices that a simulation leaves open, each with its default; published numbers differ mostly by these."""

from dataclasses import dataclass
from enum import IntEnum

from allocopt.errors import UsageError


class EventOrder(IntEnum):
    """How events at the same time are taken."""

    BATCHED = 0
    """All ends, then all submissions, then one scheduling pass."""
    SEQUENTIAL = 1
    """One event at a time, submissions before ends, a pass after each (so do pyss and Gaussier et al., SC'15)."""


class Backfill(IntEnum):
    """Which jobs may start although one before them in the queue cannot."""

    NONE = 0
    """None: the first job that does not fit blocks the others."""
    FIRST_FIT = 1
    """All that fit; nothing is promised to the job that waits first."""
    EASY = 2
    """Those that do not delay the first waiting job beyond the time the estimates promise it (Lifka 1995)."""
    CONSERVATIVE = 3
    """Those that delay no job beyond its promise; every job has one from its submission on."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a simulation does that no scheduler decides.

    Parameters
    ----------
    event_order
        How events at the same time are taken.
    kill_at_limit
        Whether a job ends when its estimate is over, or runs as long as was recorded; then an estimated end that has
        passed counts as now.
    dependencies
        Whether a job with a preceding job is submitted only when that has ended and the think time is over, not
        before its own submit time.

    Raises
    ------
    UsageError
        If the event order is none.
    """

    event_order: EventOrder = EventOrder.BATCHED
    kill_at_limit: bool = True
    dependencies: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.event_order, EventOrder):
            choices = ", ".join(f"EventOrder.{kind.name}" for kind in EventOrder)
            raise UsageError(f"event_order is {self.event_order!r}, must be one of {choices}")
