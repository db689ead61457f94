"""Column generation for `exact` and `prices`: a master problem in GLOP, and rounds with smoothed prices."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.solving.budget import ENDLESS_S

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

SMOOTHING = 0.7  # weight of the best prices so far in the prices of the next round (Wentges 1997)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Prices, and the bound that they prove, in hops; subclasses add the best columns at these prices."""

    prices: FloatArray  # price of each row that existed at the time
    bound: float  # no allocation saves more


Answered = TypeVar("Answered", bound=Answer)


class RestrictedMaster(ABC, Generic[Answered]):
    """A master problem that picks ``counts[r]`` columns for class r of jobs; GLOP solves it from the last basis on."""

    def __init__(self, counts: IntArray, n_rows: int) -> None:
        # Imported here because kernels of this solver are also compiled where OR-Tools is not installed.
        from ortools.linear_solver import pywraplp

        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        # With preprocessing, GLOP would not start from the last basis.
        self._solver.SetSolverSpecificParametersAsString("use_preprocessing:false")
        self._infinity = self._solver.infinity()
        self.jobs = [self._solver.Constraint(float(count), float(count)) for count in counts]
        self._saving = self._solver.Objective()
        self._saving.SetMaximization()
        self._seen: set[tuple[int, bytes]] = set()
        self._rows: dict[int, pywraplp.Constraint] = {}
        self.n_rows = n_rows

    @abstractmethod
    def add_answers(self, answer: Answered) -> bool:
        """Add the columns of an answer; return whether any is new."""

    def right_side(self, row: int) -> float:
        """Return the largest amount of a row that the picked columns may take together."""
        return 0.0

    def row(self, row: int) -> "pywraplp.Constraint":
        """Return a row by its number."""
        if row not in self._rows:
            self._rows[row] = self._solver.Constraint(-self._infinity, self.right_side(row))
        return self._rows[row]

    def column(
        self, count: "pywraplp.Constraint", taken: bytes, saving: float, amounts: Iterable[tuple[int, float]]
    ) -> "pywraplp.Variable | None":
        """Add and return a column of row ``count`` that takes amounts of other rows; return None if it exists.

        ``taken`` identifies the column among those of its row.
        """
        key = (count.index(), taken)
        if key in self._seen:
            return None
        self._seen.add(key)
        column = self._solver.NumVar(0.0, self._infinity, "")
        self._saving.SetCoefficient(column, saving)
        count.SetCoefficient(column, 1.0)
        for row, amount in amounts:
            self.row(row).SetCoefficient(column, amount)
        return column

    def solve(self, remaining: Callable[[], float]) -> tuple[float, FloatArray] | None:
        """Return the value and the prices of the rows, none negative; None if GLOP fails or the time is over."""
        from ortools.linear_solver import pywraplp

        of_parameters = pywraplp.MPSolverParameters
        # Start from the last basis; if that fails, from scratch.
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
                prices = np.zeros(self.n_rows)
                for row, constraint in self._rows.items():
                    prices[row] = max(0.0, constraint.dual_value())
                return float(self._saving.Value()), prices
        return None


class Generation(Generic[Answered]):
    """Rounds of master problem and pricing; ``best`` is the answer with the least bound so far."""

    equal_relative: ClassVar[float]
    """Relative distance within which bound and value of the master problem count as equal."""

    def __init__(
        self, price: Callable[[FloatArray], Answered], master: RestrictedMaster[Answered], best: Answered
    ) -> None:
        self._price, self._restricted, self.best = price, master, best

    def converge(self, remaining: Callable[[], float], may_go_on: Callable[[], bool]) -> bool:
        """Generate columns until the bound equals the value of the master problem; return False if it had to stop.

        ``remaining`` returns the remaining seconds. ``may_go_on`` is called before every master problem. A round first
        tries prices between the best ones and those of the master problem. If these add no column, it tries the latter.
        """
        while may_go_on():
            solved = self._restricted.solve(remaining)
            if solved is None:
                return False
            value, prices = solved
            if self.best.bound - value <= self.equal_relative * max(1.0, abs(self.best.bound)):
                return True
            # Rows that were added since the best answer have price 0 in it.
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
