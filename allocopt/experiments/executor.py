"""Who runs cells: the interface, and what is heard from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from allocopt.experiments.cells import Cell
from allocopt.experiments.work import Measured, Refused


@dataclass(frozen=True, slots=True)
class Lost:
    """A cell was not finished, for its worker died."""

    reason: str


@dataclass(frozen=True, slots=True)
class News:
    """What became of the cell of a number."""

    number: int
    outcome: Measured | Refused | Lost


class Executor(Protocol):
    """Runs cells side by side."""

    def has_room(self) -> bool:
        """Whether another cell can begin."""

    def submit(self, number: int, cell: Cell) -> None:
        """Begin a cell; its number comes back with its news."""

    def news(self, timeout_s: float) -> Sequence[News]:
        """Wait for news of cells that have begun; none if there are none in time."""

    def stop(self, number: int) -> None:
        """End a cell that has begun; nothing is heard of it any more."""

    def close(self) -> None:
        """End all that still runs."""
