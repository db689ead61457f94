"""Temperatures and step counts of an annealing, in units that do not depend on the cost of a hop."""

from dataclasses import dataclass

from allocopt.errors import UsageError


@dataclass(frozen=True, slots=True)
class Schedule:
    """A geometric cooling schedule.

    Parameters
    ----------
    hottest, coldest
        Temperature at the first and the last step, as multiples of the cost of one hop, positive and falling.
    steps
        Steps from the one to the other, at least 1.
    most_removed
        Largest number of jobs that a move removes, at least 1; n_D in the NSA paper.

    Raises
    ------
    UsageError
        If a value is out of range.
    """

    hottest: float
    coldest: float
    steps: int
    most_removed: int

    def __post_init__(self) -> None:
        if not 0 < self.coldest <= self.hottest < float("inf"):
            raise UsageError(f"temperatures must fall and be positive, not from {self.hottest} to {self.coldest}")
        if self.steps < 1 or self.most_removed < 1:
            raise UsageError(f"steps ({self.steps}) and most_removed ({self.most_removed}) must be at least 1")
