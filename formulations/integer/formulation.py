"""What every formulation can do."""

from typing import Any, Protocol

from allocopt.arrays import IntArray
from formulations.integer.program import BinaryProgram


class Formulation(Protocol):
    """A problem written as a binary program, and the way back."""

    def program(self) -> BinaryProgram:
        """Build the program."""

    def decode(self, chosen: IntArray) -> Any:
        """Solution that the ones of a feasible point stand for; None if they stand for none."""

    def encode(self, solution: Any, /) -> IntArray | None:
        """Ones of the point that stands for a solution, rising; None if the program left it out."""

    def bound_of(self, bound: float) -> float:
        """Bound on the problem's objective that follows from a lower bound of the program."""
