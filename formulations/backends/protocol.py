"""What back ends are asked and answer, and how both travel between processes."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from allocopt.arrays import IntArray
from formulations.backends.program import BinaryProgram

_LENGTH_BYTES = 8


class Formulation(Protocol):
    """A problem written as a binary program, and the way back."""

    def program(self) -> BinaryProgram:
        """Build the program."""

    def decode(self, chosen: IntArray) -> Any:
        """Return the solution that the ones of a feasible point stand for; None if they stand for none."""

    def encode(self, solution: Any, /) -> IntArray | None:
        """Return the ones of the point that stands for a solution, rising; None if the program left it out."""

    def bound_of(self, bound: float) -> float:
        """Return the bound on the problem's objective that follows from a lower bound of the program."""


@dataclass(frozen=True, slots=True)
class Request:
    """A solve that a back end is asked for."""

    program: BinaryProgram
    seconds: float  # of wall clock; infinity for no limit
    seed: int = 0  # from 0 on; a back end without randomness ignores it
    steps: int | None = None  # branch-and-bound nodes, or conflicts where the back end counts those; None for no limit
    warm: IntArray | None = None  # columns that are 1 in a feasible solution to begin with; may be ignored


@dataclass(frozen=True, slots=True)
class Progress:
    """A better solution, as columns that are 1, rising, or a better lower bound, or both, while the search goes on."""

    chosen: IntArray | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Outcome(Progress):
    """The end of a solve: the best solution and the best bound, None where there is none.

    What is proved is that the solution is optimal; without a solution, that there is none.
    """

    is_proved: bool


Report = Callable[[Progress], None]


class BackEnd(Protocol):
    """A module of this package that runs one solver."""

    def version(self) -> str:
        """Return the version of the solver."""

    def solve_program(self, request: Request, report: Report) -> Outcome:
        """Solve a program on one thread.

        Its costs are scaled so that the largest lies in 2**15 .. 2**16, where absolute tolerances mean what they
        should. Every improvement that the back end shows while it runs is reported.
        """


def write_frame(stream: BinaryIO, message: object) -> None:
    """Write a message and flush; raise `OSError` if the other side is gone."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(body)
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """Read a message; None at the end of the stream, also if it ends within a message."""

    def read(length: int) -> bytes:
        # An unbuffered stream gives what is asked for piece by piece, less at its end.
        pieces = []
        while length and (piece := stream.read(length)):
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    head = read(_LENGTH_BYTES)
    length = int.from_bytes(head, "little")
    body = read(length)
    return None if len(head) < _LENGTH_BYTES or len(body) < length else pickle.loads(body)
