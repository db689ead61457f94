"""Prices that prove as much as they can: column generation over the parts of jobs and the sales of groups."""

from collections.abc import Callable

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.encoding import Encoding
from formulations.prices.master import Master
from formulations.prices.pricing import Priced, Pricing

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
