"""Obvious, slow twins of the prices of parts, in exact arithmetic."""

from fractions import Fraction
from functools import cache

from allocopt.arrays import FloatArray
from formulations.topology.prices.pricing import MergedTree

NEVER = Fraction(-(10**12))


class SlowPricing:
    """What jobs and groups can get at some prices, straight from the definitions.

    Parameters
    ----------
    tree
        The classes.
    prices
        Price of every part, by row.
    """

    def __init__(self, tree: MergedTree, prices: FloatArray) -> None:
        self._tree = tree
        self._prices = [Fraction(price) for price in prices.tolist()]
        self.value = cache(self._value)
        self.worth = cache(self._worth)
        self._several = cache(self._of_several)
        self._one = cache(self._of_one)

    def _value(self, size: int, v: int, k: int) -> Fraction:
        """Largest value of k nodes below one group of class v for a job of a size."""
        children = self._tree.children[self._tree.first_child[v] : self._tree.first_child[v + 1]].tolist()
        if not children:
            return Fraction(0)
        values = {0: Fraction(0)}
        for child in children:
            combined: dict[int, Fraction] = {}
            for before, value in values.items():
                for a in range(k - before + 1):
                    candidate = value + self._several(size, child, a)
                    combined[before + a] = max(candidate, combined.get(before + a, NEVER))
            values = combined
        return values[k]

    def _of_several(self, size: int, v: int, k: int) -> Fraction:
        """Largest value of k nodes of any groups of class v, as many as one likes if there are several."""
        if k == 0:
            return Fraction(0)
        if self._tree.members[v] == 1:
            return self._one(size, v, k)
        return max(self._several(size, v, k - a) + self._one(size, v, a) for a in range(1, k + 1))

    def _of_one(self, size: int, v: int, k: int) -> Fraction:
        """Largest value of k nodes of one group of class v."""
        if k > self._tree.widest[v]:
            return NEVER
        weight = Fraction(float(self._tree.weight[v]))
        return self.value(size, v, k) + weight * k * k / size - self._prices[int(self._tree.first[v]) + k]

    def _worth(self, v: int, idle: int) -> Fraction:
        """Largest price of parts that fit into a group of class v with so many idle nodes."""
        row, widest = int(self._tree.first[v]), int(self._tree.widest[v])
        offers = [self._prices[row + a] + self.worth(v, idle - a) for a in range(1, min(idle, widest) + 1)]
        return max([Fraction(0), *offers])

    def bound(self, sizes: list[int]) -> Fraction:
        """Largest saving that the prices allow."""
        tree, top = self._tree, len(self._tree.widest) - 1
        stocks = zip(tree.stock_class.tolist(), tree.stock_idle.tolist(), tree.stock_count.tolist(), strict=True)
        return sum((self.value(n, top, n) for n in sizes), Fraction(0)) + sum(
            (count * self.worth(v, idle) for v, idle, count in stocks), Fraction(0)
        )
