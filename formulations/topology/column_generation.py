"""Column generation as `exact` and `prices` do it: a master problem in GLOP, and rounds of smoothed prices."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
from ortools.linear_solver import pywraplp

from allocopt.arrays import FloatArray, IntArray
from allocopt.solving.budget import ENDLESS_S

SMOOTHING = 0.7  # weight of the best prices so far in those that are tried next (Wentges 1997)


class Answer(Protocol):
    """The best columns at prices of the rows that there were, and what they prove: no allocation saves more hops."""

    @property
    def prices(self) -> FloatArray:
        """One for each row, in hops."""

    @property
    def bound(self) -> float:
        """In hops."""


Answered = TypeVar("Answered", bound=Answer)


class RestrictedMaster(ABC, Generic[Answered]):
    """A master problem, solved by GLOP from the last basis on, that picks so many columns of each kind of job."""

    def __init__(self, counts: IntArray) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        # With preprocessing GLOP does not begin at the last basis.
        self._solver.SetSolverSpecificParametersAsString("use_preprocessing:false")
        self._infinity = self._solver.infinity()
        self._jobs = [self._solver.Constraint(float(count), float(count)) for count in counts]
        self._saving = self._solver.Objective()
        self._saving.SetMaximization()
        self._seen: set[tuple[int, bytes]] = set()

    @abstractmethod
    def add_answers(self, answer: Answered) -> bool:
        """Add the columns of an answer; return whether any is new."""

    @abstractmethod
    def _duals(self) -> FloatArray:
        """Prices of the rows, none negative, after a solve."""

    def _column(self, count: pywraplp.Constraint, taken: bytes, saving: float) -> pywraplp.Variable | None:
        """Add a column that counts in a row and takes what its bytes say; None if it is there already."""
        key = (count.index(), taken)
        if key in self._seen:
            return None
        self._seen.add(key)
        column = self._solver.NumVar(0.0, self._infinity, "")
        self._saving.SetCoefficient(column, saving)
        count.SetCoefficient(column, 1.0)
        return column

    def solve(self, remaining: Callable[[], float]) -> tuple[float, FloatArray] | None:
        """Return the value and the prices of the rows; None if GLOP fails or runs out of time, in seconds."""
        of_parameters = pywraplp.MPSolverParameters
        # From the last basis first; where that fails, from scratch.
        for incremental in (of_parameters.INCREMENTALITY_ON, of_parameters.INCREMENTALITY_OFF):
            seconds = remaining()
            if seconds <= 0.0:
                break
            if seconds < ENDLESS_S:
                # GLOP takes whole milliseconds.
                self._solver.SetTimeLimit(max(1, int(1000 * seconds)))
            parameters = of_parameters()
            parameters.SetIntegerParam(of_parameters.INCREMENTALITY, incremental)
            if self._solver.Solve(parameters) == pywraplp.Solver.OPTIMAL:
                return float(self._saving.Value()), self._duals()
        return None


class Generation(Generic[Answered]):
    """Rounds of master problem and pricing; ``best`` is the answer of the least bound so far."""

    equal_relative: ClassVar[float]
    """Bound and value of the master problem within this relative distance are equal."""

    def __init__(
        self, price: Callable[[FloatArray], Answered], master: RestrictedMaster[Answered], best: Answered
    ) -> None:
        self._price, self._restricted, self.best = price, master, best

    def _round(self, remaining: Callable[[], float]) -> bool | None:
        """Return whether the bound is the value of the master problem, which else has new columns; None if it failed.

        Prices between the best ones and those of the master problem are tried first, then the latter.
        """
        solved = self._restricted.solve(remaining)
        if solved is None:
            return None
        value, prices = solved
        if self.best.bound - value <= self.equal_relative * max(1.0, abs(self.best.bound)):
            return True
        # Rows that were added since then had no price.
        best = np.zeros(len(prices))
        best[: len(self.best.prices)] = self.best.prices
        for smoothing in (SMOOTHING, 0.0):
            tried = self._price(smoothing * best + (1 - smoothing) * prices)
            self.best = min(self.best, tried, key=lambda answer: answer.bound)
            if self._restricted.add_answers(tried):
                return False
        return True
