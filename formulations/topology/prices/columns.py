"""Prices that prove as much as they can: column generation over the parts of jobs and the sales of groups."""

from collections.abc import Callable

import numpy as np
from ortools.linear_solver import pywraplp

from allocopt.arrays import Encoding, FloatArray, IntArray
from formulations.topology.column_generation import Generation, RestrictedMaster
from formulations.topology.prices.pricing import Priced, Pricing

MOST_SPLITS = 1500
"""Splits of parts up to which they are columns from the start; more would cost more than they save rounds."""


class Master(RestrictedMaster[Priced]):
    """Picks parts for every job and sales for every group.

    Parameters
    ----------
    pricing
        The jobs and the stocks.
    """

    def __init__(self, pricing: Pricing) -> None:
        super().__init__(pricing.multiplicity)
        self._n_rows = pricing.tree.n_rows
        self._stocks = [self._solver.Constraint(0.0, float(count)) for count in pricing.tree.stock_count]
        self._rows: dict[int, pywraplp.Constraint] = {}
        self._seen: set[tuple[bool, int, bytes]] = set()
        if (pricing.tree.widest[:-1] ** 2 // 4).sum() <= MOST_SPLITS:
            for first, widest in zip(pricing.tree.first[:-2].tolist(), pricing.tree.widest[:-1].tolist(), strict=True):
                self._add_splits(first, widest)

    def add_answers(self, answer: Priced) -> bool:
        """Add the parts of all sizes and the sales of all stocks; return whether any is new."""
        before = len(self._seen)
        for r, saving in enumerate(answer.savings.tolist()):
            rows = np.flatnonzero(answer.job_parts[r])
            self.add_job(r, rows, answer.job_parts[r, rows], saving)
        for stock, sales in enumerate(answer.sales):
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
        # No more of a part is taken than sold.
        if row not in self._rows:
            self._rows[row] = self._solver.Constraint(-self._infinity, 0.0)
        return self._rows[row]

    def _add(
        self, key: tuple[bool, int, bytes], count: pywraplp.Constraint, rows: IntArray, amounts: IntArray, saving: float
    ) -> None:
        if key in self._seen:
            return
        self._seen.add(key)
        column = self._column(count, saving)
        for row, amount in zip(rows.tolist(), amounts.tolist(), strict=True):
            self._row(row).SetCoefficient(column, float(amount))

    def _duals(self) -> FloatArray:
        prices = np.zeros(self._n_rows)
        for row, constraint in self._rows.items():
            prices[row] = max(0.0, constraint.dual_value())
        return prices


class Ascent(Generation[Priced]):
    """Column generation at one level of merging.

    Parameters
    ----------
    encoding, pricing
        The problem, and what answers prices.
    prices
        To begin with.
    owners
        Job of every idle position, or -1, in an allocation, so that the master problem has a solution, shape ``(m,)``.
    """

    equal_relative = 1e-8

    def __init__(self, encoding: Encoding, pricing: Pricing, prices: FloatArray, owners: IntArray) -> None:
        self._pricing = pricing
        self._master = Master(pricing)
        super().__init__(pricing.at, self._master, pricing.at(prices))
        self._add_allocation(encoding, owners)
        self._master.add_answers(self.best)

    def climb(self, remaining: Callable[[], float], may_go_on: Callable[[], bool]) -> bool:
        """Generate columns until the bound is the value of the master problem; return False if it had to stop.

        ``remaining`` says how many seconds are left, ``may_go_on`` is asked before every master problem.
        """
        while may_go_on():
            converged = self._round(remaining)
            if converged is not False:
                return converged is True
        return False

    def _add_allocation(self, encoding: Encoding, owners: IntArray) -> None:
        tree, n_jobs = self._pricing.tree, len(encoding.sizes)
        taken, squares = owners >= 0, np.zeros(n_jobs)
        job_rows: list[tuple[IntArray, IntArray]] = []
        for level, (groups, class_of) in enumerate(zip(encoding.groups, self._pricing.class_of_group, strict=True)):
            pairs, nodes = np.unique(owners[taken] * len(class_of) + groups[taken], return_counts=True)
            job, group = np.divmod(pairs, len(class_of))
            row = tree.first[class_of[group]] + nodes
            np.add.at(squares, job, encoding.weights[level] * nodes.astype(np.float64) ** 2)
            job_rows.append((job, row))
            # Stocks rise in class, then idle nodes.
            idle = np.bincount(groups)
            base = int(max(tree.stock_idle.max(), idle.max())) + 1
            stock = np.searchsorted(tree.stock_class * base + tree.stock_idle, class_of * base + idle)
            for owner, rows, amounts in _by_owner(group, row):
                self._master.add_sales(int(stock[owner]), rows, amounts)
        if not job_rows:
            return
        index = np.searchsorted(self._pricing.sizes, encoding.sizes)
        all_jobs, all_rows = (np.concatenate(columns) for columns in zip(*job_rows, strict=True))
        for owner, rows, amounts in _by_owner(all_jobs, all_rows):
            self._master.add_job(int(index[owner]), rows, amounts, float(squares[owner] / encoding.sizes[owner]))


def _by_owner(owners: IntArray, rows: IntArray) -> list[tuple[int, IntArray, IntArray]]:
    base = int(rows.max()) + 1
    keys, amounts = np.unique(owners * base + rows, return_counts=True)
    owner, row = np.divmod(keys, base)
    distinct, first = np.unique(owner, return_index=True)
    split_rows, split_amounts = np.split(row, first[1:]), np.split(amounts, first[1:])
    return list(zip(distinct.tolist(), split_rows, split_amounts, strict=True))
