"""Binary programs, what back ends answer to them, and how both travel between processes."""

import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Protocol

import numpy as np
from scipy.sparse import coo_array, csc_array

from allocopt.arrays import FloatArray, IntArray

_LENGTH_BYTES = 8

Numbers = IntArray | FloatArray
Term = tuple[IntArray, Numbers | float]  # Columns, and their values or one value that stands for all of them


@dataclass(frozen=True, slots=True)
class NameGrid:
    """Names ``stem_a_b_..`` for every combination of the axes' values, the last axis running fastest."""

    stem: str
    axes: tuple[IntArray, ...]

    def names(self) -> list[str]:
        """Write the names out."""
        values = (axis.tolist() for axis in self.axes)
        return ["_".join([self.stem, *map(str, combination)]) for combination in itertools.product(*values)]


@dataclass(frozen=True, slots=True, eq=False)
class BinaryProgram:
    """Minimize ``costs @ x`` over binary x with ``row_lower <= matrix @ x <= row_upper``.

    A side that a row does not have is infinite. Names are written out only when they are asked for.
    """

    costs: FloatArray
    matrix: csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    column_grids: tuple[NameGrid, ...]
    row_grids: tuple[NameGrid, ...]

    def __post_init__(self) -> None:
        rows = (len(self.row_lower), len(self.row_upper))
        if rows != (self.matrix.shape[0],) * 2 or len(self.costs) != self.matrix.shape[1]:
            raise ValueError(f"the matrix is {self.matrix.shape}, with {len(self.costs)} costs and {rows} row sides")

    def column_names(self) -> list[str]:
        """Name of every variable."""
        return [name for grid in self.column_grids for name in grid.names()]

    def row_names(self) -> list[str]:
        """Name of every row."""
        return [name for grid in self.row_grids for name in grid.names()]

    def cost_of(self, chosen: IntArray) -> float:
        """Objective of the point whose ones are ``chosen``."""
        return float(self.costs[chosen].sum())


class Rows:
    """Rows of a program, in the order in which they are added; a row is the sum of some terms between its sides."""

    def __init__(self) -> None:
        self._blocks: list[tuple[IntArray, IntArray, Numbers, Numbers, Numbers]] = []

    def at_most(self, upper: float, *terms: Term) -> None:
        """Add the row ``sum of values @ x[columns] <= upper``."""
        self._add_row(-np.inf, upper, terms)

    def equal(self, side: float, *terms: Term) -> None:
        """Add the row ``sum of values @ x[columns] == side``."""
        self._add_row(side, side, terms)

    def add(
        self, row_of: IntArray, columns: IntArray, values: Numbers, uppers: Numbers, lowers: Numbers | None = None
    ) -> None:
        """Add rows ``lower <= sum of values @ x[columns] <= upper``; ``row_of`` counts from 0 in each call."""
        lower = np.full(len(uppers), -np.inf) if lowers is None else lowers
        self._blocks.append((row_of, columns, values, lower, uppers))

    def program(
        self, costs: FloatArray, names: Sequence[NameGrid], row_names: Sequence[NameGrid] | None = None
    ) -> BinaryProgram:
        """Make the program of these rows, which without names are numbered."""
        row_of, columns, values, lower, upper = zip(*self._blocks, strict=True)
        counts = np.array([len(sides) for sides in upper])
        first = np.cumsum(counts) - counts
        rows = np.concatenate([part + start for part, start in zip(row_of, first, strict=True)])
        places, n_rows = (rows, np.concatenate(columns)), int(counts.sum())
        return BinaryProgram(
            costs,
            csc_array(coo_array((np.concatenate(values, dtype=np.float64), places), shape=(n_rows, len(costs)))),
            np.concatenate(lower, dtype=np.float64),
            np.concatenate(upper, dtype=np.float64),
            tuple(names),
            (NameGrid("row", (np.arange(n_rows),)),) if row_names is None else tuple(row_names),
        )

    def _add_row(self, lower: float, upper: float, terms: tuple[Term, ...]) -> None:
        columns = np.concatenate([columns for columns, _ in terms])
        values = np.concatenate([np.broadcast_to(value, len(columns)) for columns, value in terms])
        self._blocks.append((np.zeros_like(columns), columns, values, np.array([lower]), np.array([upper])))


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


@dataclass(frozen=True, slots=True)
class Limits:
    """What one solve may spend."""

    seconds: float  # of wall clock; infinity for no limit
    seed: int  # from 0 on; a back end without randomness ignores it
    steps: int | None  # branch-and-bound nodes, or conflicts where the back end counts those; None for no limit


class OutcomeStatus(StrEnum):
    """What a back end can say at its end."""

    PROVED = "proved"
    """The solution is optimal; without a solution, there is none."""
    FEASIBLE = "feasible"
    NONE = "none"
    """Nothing was found, and nothing proved."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A better solution, as columns that are 1, rising, or a better lower bound, or both, while the search goes on."""

    chosen: IntArray | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a solve: its status, the best solution and the best bound, None where there is none."""

    status: OutcomeStatus
    chosen: IntArray | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Request:
    """A solve that a child process is asked for; ``warm`` as in `BackEnd.solve_program`."""

    program: BinaryProgram
    limits: Limits
    warm: IntArray | None


Report = Callable[[Progress], None]


class BackEnd(Protocol):
    """A module of this package that runs one solver."""

    def version(self) -> str:
        """Version of the solver."""

    def solve_program(self, program: BinaryProgram, limits: Limits, warm: IntArray | None, report: Report) -> Outcome:
        """Solve a program on one thread.

        Its costs are scaled so that the largest lies in 2**15 .. 2**16, where absolute tolerances mean what they
        should. ``warm`` are the columns that are 1 in a feasible solution to begin with, or None; a back end that takes
        none ignores it. Every improvement that the back end shows while it runs is reported.
        """


def write_frame(stream: BinaryIO, message: object) -> None:
    """Write a message and flush; raise `OSError` if the other side is gone."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(body)
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """Read a message; None at the end of the stream, also if it ends within a message."""
    head = _read(stream, _LENGTH_BYTES)
    length = int.from_bytes(head, "little")
    body = _read(stream, length)
    return None if len(head) < _LENGTH_BYTES or len(body) < length else pickle.loads(body)


def _read(stream: BinaryIO, length: int) -> bytes:
    # An unbuffered stream gives what is asked for piece by piece, less at its end.
    pieces = []
    while length and (piece := stream.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
