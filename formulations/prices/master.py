"""The master problem of the part prices."""

import numpy as np
from ortools.linear_solver import pywraplp

from allocopt.arrays import FloatArray, IntArray
from formulations.prices.pricing import Priced, Pricing

MOST_SPLITS = 1500
"""Splits of parts up to which they are columns from the start; more would cost more than they save rounds."""


class Master:
    """Picks parts for every job and sales for every group, solved by GLOP from the basis of the time before.

    Parameters
    ----------
    pricing
        The jobs and the stocks.
    """

    def __init__(self, pricing: Pricing) -> None:
        self._n_rows = pricing.tree.n_rows
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.SetSolverSpecificParametersAsString("use_preprocessing:false")
        self._infinity = self._solver.infinity()
        self._jobs = [self._solver.Constraint(float(count), float(count)) for count in pricing.multiplicity]
        self._stocks = [self._solver.Constraint(0.0, float(count)) for count in pricing.tree.stock_count]
        self._rows: dict[int, pywraplp.Constraint] = {}
        self._saving = self._solver.Objective()
        self._saving.SetMaximization()
        self._seen: set[tuple[bool, int, bytes]] = set()
        if (pricing.tree.widest[:-1] ** 2 // 4).sum() <= MOST_SPLITS:
            for first, widest in zip(pricing.tree.first[:-2].tolist(), pricing.tree.widest[:-1].tolist(), strict=True):
                self._add_splits(first, widest)

    def add_answers(self, priced: Priced) -> bool:
        """Add the answers to prices; return whether any is new."""
        before = len(self._seen)
        for r, saving in enumerate(priced.savings.tolist()):
            rows = np.flatnonzero(priced.job_parts[r])
            self.add_job(r, rows, priced.job_parts[r, rows], saving)
        for stock, sales in enumerate(priced.sales):
            rows = np.flatnonzero(sales)
            self.add_sales(stock, rows, sales[rows])
        return len(self._seen) > before

    def add_job(self, r: int, rows: IntArray, amounts: IntArray, saving: float) -> None:
        """Let jobs of the size with index ``r`` take parts that save so many hops."""
        key = (True, r, rows.tobytes() + amounts.tobytes())
        self._add(key, self._jobs[r], rows, amounts, saving)

    def add_sales(self, stock: int, rows: IntArray, amounts: IntArray) -> None:
        """Let groups of a stock sell parts together."""
        if len(rows) > 0:
            key = (False, stock, rows.tobytes() + amounts.tobytes())
            self._add(key, self._stocks[stock], rows, -amounts, 0.0)

    def _add_splits(self, first: int, widest: int) -> None:
        """Let what is sold be split in two parts: groups can sell these as well, but so it need not be found out."""
        for nodes in range(2, widest + 1):
            for part in range(1, nodes // 2 + 1):
                column = self._solver.NumVar(0.0, self._infinity, "")
                amounts = {nodes: 1.0, part: -1.0, nodes - part: -2.0 if 2 * part == nodes else -1.0}
                for k, amount in amounts.items():
                    self._row(first + k).SetCoefficient(column, amount)

    def _row(self, row: int) -> pywraplp.Constraint:
        """Return the constraint that no more of a part is taken than sold."""
        if row not in self._rows:
            self._rows[row] = self._solver.Constraint(-self._infinity, 0.0)
        return self._rows[row]

    def _add(
        self, key: tuple[bool, int, bytes], count: pywraplp.Constraint, rows: IntArray, amounts: IntArray, saving: float
    ) -> None:
        """Add a column, if it is new."""
        if key in self._seen:
            return
        self._seen.add(key)
        column = self._solver.NumVar(0.0, self._infinity, "")
        self._saving.SetCoefficient(column, saving)
        count.SetCoefficient(column, 1.0)
        for row, amount in zip(rows.tolist(), amounts.tolist(), strict=True):
            self._row(row).SetCoefficient(column, float(amount))

    def solve(self, seconds: float) -> tuple[float, FloatArray] | None:
        """Return the value and the prices; None if GLOP fails or runs out of time."""
        if seconds < 1e9:
            self._solver.SetTimeLimit(max(1, int(1000 * seconds)))
        of_parameters = pywraplp.MPSolverParameters
        for incremental in (of_parameters.INCREMENTALITY_ON, of_parameters.INCREMENTALITY_OFF):
            parameters = of_parameters()
            parameters.SetIntegerParam(of_parameters.INCREMENTALITY, incremental)
            if self._solver.Solve(parameters) == pywraplp.Solver.OPTIMAL:
                prices = np.zeros(self._n_rows)
                for row, constraint in self._rows.items():
                    prices[row] = max(0.0, constraint.dual_value())
                return float(self._saving.Value()), prices
        return None
