"""What every formulation of SCAS can do."""

from typing import Protocol

from allocopt.arrays import IntArray
from allocopt.problems.topology import Allocation
from formulations.integer.program import BinaryProgram


class Formulation(Protocol):
    """A problem written as a binary program, and the way back."""

    def program(self) -> BinaryProgram:
        """Build the program."""

    def decode(self, chosen: IntArray) -> Allocation | None:
        """Allocation that the ones of a feasible point stand for; None if it leaves out a job."""

    def encode(self, allocation: Allocation) -> IntArray:
        """Ones of the point that stands for a SCAS allocation, rising."""
