"""What every problem has in common."""

from enum import StrEnum
from typing import Any, Literal, Protocol

Sense = Literal["min", "max"]


class Strategy(StrEnum):
    """Which node sets a job may get (NSA paper, section III-B). Each strategy's solutions are solutions of the next."""

    SCAS = "scas"
    """Consecutive positions of the static circular sequence of idle nodes."""
    DCAS = "dcas"
    """Consecutive positions of the sequence as it shrinks while the jobs are placed one after the other."""
    FREE = "free"
    """Any disjoint node sets."""

    def holds_within(self, wider: "Strategy") -> bool:
        """Whether every solution of this strategy is a solution of ``wider`` too."""
        order = list(Strategy)
        return order.index(self) <= order.index(wider)


class Problem(Protocol):
    """A problem that a solver can be asked to solve."""

    @property
    def kind(self) -> str:
        """``topology``, ``knapsack`` or ``coallocation``."""

    @property
    def name(self) -> str:
        """Name of the instance."""

    @property
    def sense(self) -> Sense:
        """Whether the objective is minimized or maximized."""

    def objective(self, solution: Any) -> float:
        """Objective of a feasible solution."""
