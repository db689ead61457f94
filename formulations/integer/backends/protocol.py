"""What a back end is asked, and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from allocopt.arrays import IntArray
from formulations.integer.program import BinaryProgram


@dataclass(frozen=True, slots=True)
class Limits:
    """What one solve may spend.

    Parameters
    ----------
    seconds
        Wall clock; infinity for no limit.
    seed
        Random seed, from 0 on; a back end without randomness ignores it.
    steps
        Branch-and-bound nodes, or conflicts where the back end counts those; None for no limit.
    """

    seconds: float
    seed: int
    steps: int | None


class OutcomeStatus(StrEnum):
    """What a back end can say at its end."""

    PROVED = "proved"
    """The solution is optimal; without a solution, there is none."""
    FEASIBLE = "feasible"
    """The solution is feasible."""
    NONE = "none"
    """Nothing was found, and nothing proved."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A better solution or a better bound, while the search goes on.

    Parameters
    ----------
    chosen
        Columns that are 1 in the solution, rising; None if only the bound is new.
    bound
        Proven lower bound; None if only the solution is new.
    """

    chosen: IntArray | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a solve: its status, the best solution and the best bound, None where there is none."""

    status: OutcomeStatus
    chosen: IntArray | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Ready:
    """A child process has started; the version of the back end it runs."""

    version: str


@dataclass(frozen=True, slots=True)
class Request:
    """A solve that a child process is asked for.

    Parameters
    ----------
    program
        What to solve.
    limits
        What may be spent on it.
    warm
        Columns that are 1 in a feasible solution to begin with, or None.
    """

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

        Parameters
        ----------
        program
            Its costs are scaled so that the largest lies in 2**15 .. 2**16, where absolute tolerances mean what
            they should.
        limits
            What may be spent.
        warm
            A feasible solution to begin with, or None; a back end that cannot take one ignores it.
        report
            Called with every improvement that the back end shows while it runs.
        """
