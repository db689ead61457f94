"""HiGHS through SciPy, restricted to the columns that matter.

SciPy reports nothing before the end of a solve, and HiGHS spends most of its time on columns that no good solution has.
So the linear relaxation is solved first. Its row prices give a bound L (by weak duality, without tolerances) and a
reduced cost d of every column. A solution with a column outside the *core* ``d <= width`` costs at least ``L + width``.
HiGHS solves a core that begins small and grows until the best solution costs at most ``L + width``.
"""

# highspy is not used, because it and ortools ship the same shared library, and one process cannot import both.

import time
from typing import Any

import numpy as np
import scipy
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import vstack

from allocopt.arrays import IntArray
from allocopt.formulations.backends.program import Outcome, Progress, Report, Request

VERSION = f"SciPy {scipy.__version__}"  # SciPy contains HiGHS
SMALLEST_CORE = 100
COLUMNS_PER_ROW = 2
GROWTH = 4  # factor by which the core grows from solve to solve
CLOSED = 1e-9  # relative distance of a solution from a bound that counts as rounding
INTEGRAL = 1e-6  # distance from 0 or 1 that counts as rounding
_OPTIMAL, _INFEASIBLE = 0, 2  # status codes of SciPy


def solve_program(request: Request, report: Report) -> Outcome:
    """Solve a program; see `allocopt.formulations.backends`.

    The seed is ignored, because SciPy does not pass one to HiGHS.
    """
    return _CoreSearch(request, report).run()


class _CoreSearch:
    def __init__(self, request: Request, report: Report) -> None:
        self._request, self._report = request, report
        self._started = time.perf_counter()
        self._chosen: IntArray | None = None
        self._cost = np.inf

    def run(self) -> Outcome:
        """Price the rows, then solve cores until one is proved to hold the optimum or a limit is reached."""
        program = self._request.program
        if self._request.warm is not None:
            self._take(self._request.warm)
        # Solve the linear relaxation to get row prices and an optimal point. The matrices have type Any, because the
        # annotations of SciPy allow only dense ones.
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
            options={"time_limit": self._remaining()},
        )
        if answer.status == _INFEASIBLE:
            return Outcome(None, None, True)
        row_prices, point = np.zeros(len(program.row_lower)), None
        if answer.status == _OPTIMAL:
            row_prices[equal] = answer.eqlin.marginals
            row_prices[above] += answer.ineqlin.marginals[: len(above)]
            row_prices[below] -= answer.ineqlin.marginals[len(above) :]
            point = answer.x
        least, reduced_costs = program.priced(row_prices)
        self._report(Progress(None, least))
        if point is not None and (np.minimum(point, 1 - point) < INTEGRAL).all():
            self._take(np.flatnonzero(point > 0.5))
        rising = np.sort(reduced_costs)
        n_core = max(SMALLEST_CORE, COLUMNS_PER_ROW * len(program.row_lower))
        width = -np.inf
        # Stop once no better solution can have a column outside the core.
        while width < rising[-1] and not (
            self._chosen is not None and self._cost - least <= max(width, CLOSED * abs(self._cost))
        ):
            width = min(rising[min(n_core, len(rising)) - 1], self._cost - least)
            finished, core_bound = self._solve_core(np.flatnonzero(reduced_costs <= width))
            bound = max(least, min(core_bound, least + width, self._cost))
            if not finished:
                return Outcome(self._chosen, bound, False)
            self._report(Progress(None, bound))
            n_core *= GROWTH
        return Outcome(self._chosen, None if self._chosen is None else self._cost, True)

    def _solve_core(self, columns: IntArray) -> tuple[bool, float]:
        """Solve the program restricted to these columns; return whether the solve was completed, and its bound."""
        program = self._request.program
        options: Any = {"time_limit": self._remaining(), "mip_rel_gap": 0.0}
        if self._request.steps is not None:
            options["node_limit"] = self._request.steps
        answer = milp(
            program.costs[columns],
            integrality=np.ones(len(columns), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(program.matrix[:, columns], program.row_lower, program.row_upper),
            options=options,
        )
        if answer.status == _INFEASIBLE:
            return True, np.inf
        if answer.x is not None:
            self._take(columns[answer.x > 0.5])
        return answer.status == _OPTIMAL, -np.inf if answer.mip_dual_bound is None else answer.mip_dual_bound

    def _take(self, chosen: IntArray) -> None:
        cost = self._request.program.cost_of(chosen)
        if cost < self._cost:
            self._chosen, self._cost = chosen, cost
            self._report(Progress(chosen, None))

    def _remaining(self) -> float:
        # HiGHS interprets 0 as no limit.
        return max(1e-3, self._request.seconds - (time.perf_counter() - self._started))
