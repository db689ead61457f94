"""What a job is charged for its nodes of a group, as a function of their number, and the cuts that make it so.

Jobs with ``a_j`` nodes of a group of ``c`` idle nodes keep to ``sum_j f(a_j) <= f(c)`` for every superadditive ``f``.
``f(a) = a`` is the capacity of the group, ``f(a) = floor(q a / d)`` a Chvatal-Gomory cut of it: with ``d`` = 20 and
``c`` = 38, only one job can have 20 nodes of the group. The multipliers ``u`` of such rows charge ``u f(a)`` for ``a``
nodes; charges add up to one table per group, which the pricing by dynamic programming takes as it is.
"""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.tree import GroupTree


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row ``sum_j f(a_j) <= f(c)`` of the master problem, ``f(a) = floor(multiplier a / divisor)``.

    Parameters
    ----------
    vertex
        The group.
    multiplier, divisor
        Both 1 for the capacity itself.
    """

    vertex: int
    multiplier: int = 1
    divisor: int = 1

    def values(self, counts: IntArray) -> IntArray:
        """Return f of every count."""
        return self.multiplier * counts // self.divisor


class Charges:
    """The rows, and the tables that their multipliers add up to.

    Parameters
    ----------
    tree
        The groups; the rows are the capacities of its leaves to begin with.
    """

    def __init__(self, tree: GroupTree) -> None:
        self.idle: IntArray = tree.idle
        self.first: IntArray = np.concatenate(([0], np.cumsum(tree.idle + 1)))
        self.rows: list[Row] = []
        self._values: list[FloatArray] = []
        for leaf in range(len(tree.leaf_first) - 1):
            self.add(Row(leaf))

    def add(self, row: Row) -> None:
        """Add a row."""
        self.rows.append(row)
        self._values.append(row.values(np.arange(self.idle[row.vertex] + 1)).astype(np.float64))

    def right_side(self, index: int) -> float:
        """Right-hand side of a row."""
        return float(self._values[index][-1])

    def table(self, multipliers: FloatArray) -> FloatArray:
        """Charge for every number of nodes of every vertex.

        Parameters
        ----------
        multipliers
            One for each of the first rows, not negative.

        Returns
        -------
        FloatArray
            In hops, that for k nodes of vertex v at ``first[v] + k``.
        """
        table = np.zeros(int(self.first[-1]))
        for multiplier, row, values in zip(multipliers.tolist(), self.rows, self._values, strict=False):
            if multiplier > 0.0:
                table[self.first[row.vertex] : self.first[row.vertex + 1]] += multiplier * values
        return table

    def income(self, table: FloatArray) -> float:
        """Return the largest sum of charges that the jobs of an allocation can pay, in hops."""
        return float(table[self.first[1:] - 1].sum())
