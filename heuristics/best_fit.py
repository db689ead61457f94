"""Solver ``best-fit``: per job, what Slurm's tree topology plugin does.

The job goes to the lowest switch that has enough idle nodes, among those of that level to the one with the fewest;
under it, leaf by leaf: the leaf with the fewest idle nodes that still holds all that is missing, else the leaf with
the most (Slurm, select/linear and topology/tree documentation).
"""

from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.encoding import allocation_at, encode
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.one_shot import OneShot


class BestFit(OneShot):
    """Lowest switch that fits, then best fit over its leaves, jobs in their order; O(J (m + leaves))."""

    name: ClassVar[str] = "best-fit"

    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Place the jobs in their order."""
        groups = encode(problem).groups
        levels = np.vstack((groups, np.zeros((1, groups.shape[1]), dtype=np.int64)))
        leaves = _Leaves(levels)
        return allocation_at(problem, [leaves.take(int(size)) for size in problem.sizes])


class _Leaves:
    """The idle positions of every leaf, and the idle counts of every group.

    Parameters
    ----------
    levels
        Group of each idle position per level, the top included, shape ``(L, m)``.
    """

    def __init__(self, levels: IntArray) -> None:
        order = np.argsort(levels[0], kind="stable")
        first = np.flatnonzero(np.diff(levels[0][order], prepend=-1))
        self._positions = np.split(order, first[1:])
        self._idle = np.array([len(positions) for positions in self._positions])
        self._groups_of_leaf = levels[:, order[first]]

    def take(self, size: int) -> IntArray:
        """Take ``size`` idle positions for one job."""
        under = self._lowest_switch(size)
        idle = self._idle[under].copy()
        taken = []
        missing = size
        while missing > 0:
            fitting = np.where(idle >= missing, idle, np.iinfo(np.int64).max)
            leaf = int(np.argmin(fitting)) if idle.max() >= missing else int(np.argmax(idle))
            count = min(missing, int(idle[leaf]))
            taken.append(self._take_from(int(under[leaf]), count))
            idle[leaf] -= count
            missing -= count
        return np.concatenate(taken)

    def _lowest_switch(self, size: int) -> IntArray:
        """Leaves under the lowest switch with ``size`` idle nodes; of several, the one with the fewest."""
        for groups in self._groups_of_leaf:
            idle = np.bincount(groups, weights=self._idle)
            fitting = np.flatnonzero(idle >= size)
            if len(fitting):
                return np.flatnonzero(groups == fitting[np.argmin(idle[fitting])])
        raise AssertionError("a validated window fits under the top switch")

    def _take_from(self, leaf: int, count: int) -> IntArray:
        """Take the first ``count`` idle positions of a leaf."""
        self._idle[leaf] -= count
        taken, self._positions[leaf] = np.split(self._positions[leaf], [count])
        return taken
