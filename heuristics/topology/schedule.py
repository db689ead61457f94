"""The cooling schedule of searches that accept moves as simulated annealing does."""

from dataclasses import dataclass

from allocopt.errors import UsageError

MOST_REMOVED = 100


@dataclass(frozen=True, slots=True)
class Schedule:
    """A geometric cooling schedule, in units that do not depend on the cost of a hop.

    Raises `UsageError` if a value is out of range.
    """

    hottest: float  # temperature at the first step, as a multiple of the cost of one hop
    coldest: float  # the same at the last step; positive, and not above the hottest
    steps: int  # from the one to the other, at least 1
    most_removed: int  # largest number of jobs that a move removes, 1 .. 100; n_D in the NSA paper

    def __post_init__(self) -> None:
        if not 0 < self.coldest <= self.hottest < float("inf"):
            raise UsageError(f"temperatures must fall and be positive, not from {self.hottest} to {self.coldest}")
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}, must be at least 1")
        if not 1 <= self.most_removed <= MOST_REMOVED:
            raise UsageError(f"most_removed is {self.most_removed}, must be within 1 .. {MOST_REMOVED}")
