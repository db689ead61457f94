"""The bound that prices of parts prove."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.encoding import Encoding
from formulations.prices.kernels import best_parts, best_sales, working_space
from formulations.prices.merged import Merging


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """What jobs and groups do at some prices.

    Parameters
    ----------
    prices
        Price of every part, in hops, by row.
    job_parts
        How many of each part a job of each size takes, shape ``(R, rows)``.
    savings
        What these parts save, in hops, prices not taken off, shape ``(R,)``.
    sales
        How many of each part a group of each stock sells, shape ``(stocks, rows)``.
    worth
        What idle nodes of the groups of each class are worth, in hops; laid out as in `MergedTree`.
    bound
        No allocation saves more, in hops, whatever the rounding.
    """

    prices: FloatArray
    job_parts: IntArray
    savings: FloatArray
    sales: IntArray
    worth: FloatArray
    bound: float


class Pricing:
    """Finds the best answer of every size and every stock to given prices.

    Parameters
    ----------
    encoding
        The problem.
    level
        Level from which on groups stay apart; see `Merging`.
    """

    def __init__(self, encoding: Encoding, level: int) -> None:
        self.merging = Merging(encoding, level)
        self.tree = self.merging.tree
        self.sizes, self.multiplicity = np.unique(encoding.sizes, return_counts=True)
        self._most_saved = float(encoding.top) * self.sizes
        self._space = working_space(self.tree)

    def at(self, prices: FloatArray) -> Priced:
        """Answer prices, none negative, those of no nodes 0."""
        tree, n_sizes = self.tree, len(self.sizes)
        job_parts = np.empty((n_sizes, tree.n_rows), dtype=np.int64)
        savings, values = np.empty(n_sizes), np.empty(n_sizes)
        best_parts(tree, self._space, self.sizes, prices, job_parts, savings, values)
        sales = np.empty((len(tree.stock_idle), tree.n_rows), dtype=np.int64)
        worth = np.empty(int(tree.worth_first[-1]))
        best_sales(tree, self._space, prices, sales, worth)
        income = float(tree.stock_count @ worth[tree.worth_first[tree.stock_class] + tree.stock_idle])
        bound = float(self.multiplicity @ values) + income + self._rounding(values, income)
        return Priced(prices, job_parts, savings, sales, worth, bound)

    def work(self) -> int:
        """Additions of an answer, at most: of the jobs' programs and of the groups' knapsacks."""
        idle = np.diff(self.tree.worth_first)[:-1]
        return int(self.tree.widest[:-1] @ (idle + self.sizes.sum()))

    def _rounding(self, values: FloatArray, income: float) -> float:
        """Return by how much additions of floats can have lowered the bound, generously.

        The terms of a job's value are its savings, at most ``_most_saved``, and prices, which make the difference.
        """
        n_levels = len(self.merging.class_of_group)
        terms = 8 * n_levels * int(self.sizes[-1]) + int(self.tree.stock_idle.max(initial=0))
        terms += len(self.sizes) + len(self.tree.stock_idle)
        magnitude = float(self.multiplicity @ (2 * self._most_saved + np.abs(values))) + income
        return float(np.finfo(np.float64).eps) * terms * magnitude

    def inherited(self, coarse: "Pricing", prices: FloatArray) -> FloatArray:
        """Prices of every part that are those of a pricing with merged classes; they prove as much, or more."""
        mine = np.zeros(self.tree.n_rows)
        pairs = zip(self.merging.class_of_group, coarse.merging.class_of_group, strict=True)
        for fine_class, coarse_class in pairs:
            for v, group in zip(*np.unique(fine_class, return_index=True), strict=True):
                start, from_ = self.tree.first[v], coarse.tree.first[coarse_class[group]]
                length = int(self.tree.widest[v]) + 1
                mine[start : start + length] = prices[from_ : from_ + length]
        return mine
