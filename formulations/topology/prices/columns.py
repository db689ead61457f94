"""Prices that prove as much as they can: column generation over the parts of jobs and the sales of groups."""

from collections.abc import Callable

import numpy as np
from ortools.linear_solver import pywraplp

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.encoding import Encoding
from formulations.topology.prices.pricing import Priced, Pricing

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


SMOOTHING = 0.7
"""Weight of the best prices so far in those that are tried next (Wentges 1997)."""

EQUAL_RELATIVE = 1e-8
"""Bound and value of the master problem within this relative distance are equal."""


class Ascent:
    """Column generation at one level of merging.

    Parameters
    ----------
    encoding
        The problem.
    pricing
        Answers prices.
    prices
        To begin with.
    owners
        Job of every idle position, or -1, in an allocation, so that the master problem has a solution, shape ``(m,)``.
    """

    def __init__(self, encoding: Encoding, pricing: Pricing, prices: FloatArray, owners: IntArray) -> None:
        self._pricing = pricing
        self._master = Master(pricing)
        self.best: Priced = pricing.at(prices)
        self._add_allocation(encoding, owners)
        self._master.add_answers(self.best)

    def climb(self, remaining: Callable[[], float], may_go_on: Callable[[], bool]) -> bool:
        """Generate columns until the bound is the value of the master problem; return False if it had to stop.

        Parameters
        ----------
        remaining
            Says how many seconds are left.
        may_go_on
            Asked before every master problem.
        """
        while may_go_on():
            solved = self._master.solve(remaining())
            if solved is None:
                return False
            is_tight = self.best.bound - solved[0] <= EQUAL_RELATIVE * max(1.0, abs(self.best.bound))
            if is_tight or not self._price_near(solved[1]):
                return True
        return False

    def _price_near(self, prices: FloatArray) -> bool:
        """Price between the best prices and these, then at these; return whether an answer is new."""
        for smoothing in (SMOOTHING, 0.0):
            tried = self._pricing.at(smoothing * self.best.prices + (1 - smoothing) * prices)
            self.best = min(self.best, tried, key=lambda priced: priced.bound)
            if self._master.add_answers(tried):
                return True
        return False

    def _add_allocation(self, encoding: Encoding, owners: IntArray) -> None:
        """Add the parts of an allocation to the master problem."""
        tree, n_jobs = self._pricing.tree, len(encoding.sizes)
        taken, squares = owners >= 0, np.zeros(n_jobs)
        job_rows: list[tuple[IntArray, IntArray]] = []
        for level, (groups, class_of) in enumerate(
            zip(encoding.groups, self._pricing.merging.class_of_group, strict=True)
        ):
            pairs, nodes = np.unique(owners[taken] * len(class_of) + groups[taken], return_counts=True)
            job, group = np.divmod(pairs, len(class_of))
            row = tree.first[class_of[group]] + nodes
            np.add.at(squares, job, encoding.weights[level] * nodes.astype(np.float64) ** 2)
            job_rows.append((job, row))
            stock = _stock_of_groups(tree.stock_class, tree.stock_idle, class_of, np.bincount(groups))
            for owner, rows, amounts in _by_owner(group, row):
                self._master.add_sales(int(stock[owner]), rows, amounts)
        if not job_rows:
            return
        index = np.searchsorted(self._pricing.sizes, encoding.sizes)
        all_jobs, all_rows = (np.concatenate(columns) for columns in zip(*job_rows, strict=True))
        for owner, rows, amounts in _by_owner(all_jobs, all_rows):
            self._master.add_job(int(index[owner]), rows, amounts, float(squares[owner] / encoding.sizes[owner]))


def _stock_of_groups(stock_class: IntArray, stock_idle: IntArray, class_of: IntArray, idle: IntArray) -> IntArray:
    """Index of the stock of each group; stocks rise in class, then idle nodes."""
    base = int(max(stock_idle.max(), idle.max())) + 1
    return np.searchsorted(stock_class * base + stock_idle, class_of * base + idle)


def _by_owner(owners: IntArray, rows: IntArray) -> list[tuple[int, IntArray, IntArray]]:
    """Owners with their distinct rows and how often they have each."""
    base = int(rows.max()) + 1
    keys, amounts = np.unique(owners * base + rows, return_counts=True)
    owner, row = np.divmod(keys, base)
    distinct, first = np.unique(owner, return_index=True)
    split_rows, split_amounts = np.split(row, first[1:]), np.split(amounts, first[1:])
    return list(zip(distinct.tolist(), split_rows, split_amounts, strict=True))
