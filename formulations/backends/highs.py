"""HiGHS through SciPy, on the columns that matter.

SciPy shows nothing of a solve before its end, and HiGHS spends most of its time on columns that no good solution
has. So the linear relaxation comes first. Its row prices give a bound L (by weak duality, with no tolerance in it)
and a reduced cost d of every column: a solution with a column outside the *core* ``d <= width`` costs at least
``L + width``. HiGHS solves the core, which begins small, until its best solution costs no more than ``L + width``.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import vstack

from allocopt.arrays import FloatArray, IntArray
from formulations.backends.protocol import BinaryProgram, Limits, Outcome, OutcomeStatus, Progress, Report

SMALLEST_CORE = 100
COLUMNS_PER_ROW = 2
GROWTH = 4
"""Factor by which the core grows while it holds no solution."""

CLOSED = 1e-9
"""Relative distance of a solution from a bound that is rounding."""

INTEGRAL = 1e-6
"""Distance from 0 or 1 that is rounding."""

_OPTIMAL, _INFEASIBLE = 0, 2
"""Status codes of SciPy."""


def version() -> str:
    """Version of SciPy, which brings its HiGHS with it."""
    return f"SciPy {scipy.__version__}"


def solve_program(program: BinaryProgram, limits: Limits, warm: IntArray | None, report: Report) -> Outcome:
    """Solve a program; see `BackEnd.solve_program`. HiGHS takes no seed through SciPy."""
    return _CoreSearch(program, limits, report).run(warm)


@dataclass(frozen=True, slots=True)
class Prices:
    """A bound by weak duality.

    Parameters
    ----------
    bound
        Lower bound on the program.
    reduced_costs
        What the bound rises by, at least, when a column of positive reduced cost is chosen.
    """

    bound: float
    reduced_costs: FloatArray


@dataclass(frozen=True, slots=True)
class Core:
    """What is known after a solve on some columns: whether it came to its end, its point, and its bound."""

    finished: bool
    point: FloatArray | None
    bound: float


class _CoreSearch:
    """The search of one solve."""

    def __init__(self, program: BinaryProgram, limits: Limits, report: Report) -> None:
        self._program = program
        self._limits = limits
        self._report = report
        self._started = time.perf_counter()
        self._chosen: IntArray | None = None
        self._cost = np.inf

    def run(self, warm: IntArray | None) -> Outcome:
        """Price the rows, then solve growing cores."""
        if warm is not None:
            self._take(warm)
        row_prices, point = relaxation(self._program, self._remaining())
        prices = priced(self._program, row_prices)
        self._report(Progress(None, prices.bound))
        if point is not None and is_binary(point):
            self._take(np.flatnonzero(point > 0.5))
        return self._solve_cores(prices)

    def _solve_cores(self, prices: Prices) -> Outcome:
        """Solve cores until one is known to hold the optimum, or the limits are reached."""
        rising = np.sort(prices.reduced_costs)
        n_core = max(SMALLEST_CORE, COLUMNS_PER_ROW * len(self._program.row_lower))
        width = -np.inf
        while width < rising[-1] and not self._is_optimal(prices.bound, width):
            width = min(rising[min(n_core, len(rising)) - 1], self._cost - prices.bound)
            core = self._solve_core(np.flatnonzero(prices.reduced_costs <= width))
            bound = max(prices.bound, min(core.bound, prices.bound + width, self._cost))
            if not core.finished:
                return self._cut_off(bound)
            self._report(Progress(None, bound))
            n_core *= GROWTH
        return Outcome(OutcomeStatus.PROVED, self._chosen, None if self._chosen is None else self._cost)

    def _is_optimal(self, bound: float, width: float) -> bool:
        """Whether there is a solution, and none that is better has a column outside the core of that width."""
        return self._chosen is not None and self._cost - bound <= max(width, CLOSED * abs(self._cost))

    def _solve_core(self, columns: IntArray) -> Core:
        """Let HiGHS solve the program on these columns, and take its solution."""
        core = solve_columns(self._program, columns, self._remaining(), self._limits.steps)
        if core.point is not None:
            self._take(columns[core.point > 0.5])
        return core

    def _take(self, chosen: IntArray) -> None:
        """Keep and report a solution if it is better."""
        cost = self._program.cost_of(chosen)
        if cost < self._cost:
            self._chosen, self._cost = chosen, cost
            self._report(Progress(chosen, None))

    def _cut_off(self, bound: float) -> Outcome:
        """Outcome at a limit."""
        status = OutcomeStatus.NONE if self._chosen is None else OutcomeStatus.FEASIBLE
        return Outcome(status, self._chosen, bound)

    def _remaining(self) -> float:
        """Seconds left; HiGHS takes 0 for no limit at all."""
        return max(1e-3, self._limits.seconds - (time.perf_counter() - self._started))


def relaxation(program: BinaryProgram, seconds: float) -> tuple[FloatArray, FloatArray | None]:
    """Solve the linear relaxation.

    Returns
    -------
    row_prices
        Shape ``(rows,)``; zero if the relaxation was not solved.
    point
        Its optimal point, or None if it was not solved.
    """
    # SciPy's types know dense matrices only.
    rows: Any = program.matrix.tocsr()
    equal = np.flatnonzero(program.row_lower == program.row_upper)
    above = np.flatnonzero(np.isfinite(program.row_upper) & (program.row_lower < program.row_upper))
    below = np.flatnonzero(np.isfinite(program.row_lower) & (program.row_lower < program.row_upper))
    at_most: Any = vstack([rows[above], -rows[below]])
    answer = linprog(
        program.costs,
        A_ub=at_most,
        b_ub=np.concatenate((program.row_upper[above], -program.row_lower[below])),
        A_eq=rows[equal],
        b_eq=program.row_lower[equal],
        bounds=(0, 1),
        method="highs",
        options={"time_limit": seconds},
    )
    prices = np.zeros(len(program.row_lower))
    if answer.status != _OPTIMAL:
        return prices, None
    prices[equal] = answer.eqlin.marginals
    prices[above] += answer.ineqlin.marginals[: len(above)]
    prices[below] -= answer.ineqlin.marginals[len(above) :]
    return prices, answer.x


def priced(program: BinaryProgram, row_prices: FloatArray) -> Prices:
    """Bound of any row prices by weak duality, those of the wrong sign taken as zero."""
    prices = np.where(np.isinf(program.row_lower), np.minimum(row_prices, 0.0), row_prices)
    prices = np.where(np.isinf(program.row_upper), np.maximum(prices, 0.0), prices)
    side = np.where(prices > 0, program.row_lower, program.row_upper)
    reduced = program.costs - program.matrix.T @ prices
    priced_rows = prices != 0
    bound = prices[priced_rows] @ side[priced_rows] + np.minimum(reduced, 0.0).sum()
    return Prices(float(bound), reduced)


def is_binary(point: FloatArray) -> bool:
    """Whether a point of the relaxation holds zeros and ones only."""
    return bool((np.minimum(point, 1 - point) < INTEGRAL).all())


def solve_columns(program: BinaryProgram, columns: IntArray, seconds: float, steps: int | None) -> Core:
    """Solve a program on some of its columns."""
    options: Any = {"time_limit": seconds, "mip_rel_gap": 0.0}
    if steps is not None:
        options["node_limit"] = steps
    answer = milp(
        program.costs[columns],
        integrality=np.ones(len(columns), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(program.matrix[:, columns], program.row_lower, program.row_upper),
        options=options,
    )
    if answer.status == _INFEASIBLE:
        return Core(True, None, np.inf)
    bound = answer.mip_dual_bound
    return Core(answer.status == _OPTIMAL, answer.x, -np.inf if bound is None else bound)
