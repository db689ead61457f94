"""Column generation as `exact` and `prices` do it: a master problem in GLOP, and rounds of smoothed prices."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.solving.budget import ENDLESS_S

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

SMOOTHING = 0.7  # weight of the best prices so far in those that are tried next (Wentges 1997)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The best columns at some prices, in hops, and what they prove."""

    prices: FloatArray  # of each row that there was
    bound: float  # no allocation saves more


Answered = TypeVar("Answered", bound=Answer)


class RestrictedMaster(ABC, Generic[Answered]):
    """A master problem, solved by GLOP from the last basis on, that picks so many columns of each kind of job."""

    def __init__(self, counts: IntArray) -> None:
        # Kernels of this solver are compiled ahead where OR-Tools is not installed.
        from ortools.linear_solver import pywraplp

        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        # With preprocessing GLOP does not begin at the last basis.
        self._solver.SetSolverSpecificParametersAsString("use_preprocessing:false")
        self._infinity = self._solver.infinity()
        self.jobs = [self._solver.Constraint(float(count), float(count)) for count in counts]
        self._saving = self._solver.Objective()
        self._saving.SetMaximization()
        self._seen: set[tuple[int, bytes]] = set()

    @abstractmethod
    def add_answers(self, answer: Answered) -> bool:
        """Add the columns of an answer; return whether any is new."""

    @abstractmethod
    def duals(self) -> FloatArray:
        """Prices of the rows, none negative, after a solve."""

    def column(self, count: "pywraplp.Constraint", taken: bytes, saving: float) -> "pywraplp.Variable | None":
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
        from ortools.linear_solver import pywraplp

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
                return float(self._saving.Value()), self.duals()
        return None


class Generation(Generic[Answered]):
    """Rounds of master problem and pricing; ``best`` is the answer of the least bound so far."""

    equal_relative: ClassVar[float]
    """Bound and value of the master problem within this relative distance are equal."""

    def __init__(
        self, price: Callable[[FloatArray], Answered], master: RestrictedMaster[Answered], best: Answered
    ) -> None:
        self._price, self._restricted, self.best = price, master, best

    def converge(self, remaining: Callable[[], float], may_go_on: Callable[[], bool]) -> bool:
        """Generate columns until the bound is the value of the master problem; return False if it had to stop.

        ``remaining`` says how many seconds are left, ``may_go_on`` is asked before every master problem. Prices between
        the best ones and those of the master problem are tried first, then the latter.
        """
        while may_go_on():
            solved = self._restricted.solve(remaining)
            if solved is None:
                return False
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
                    break
            else:
                return True
        return False
