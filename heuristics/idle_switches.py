"""The idle nodes of a window, switch by switch, as jobs take them one after the other."""

from collections.abc import Sequence

import numpy as np

from allocopt.arrays import IntArray


class IdleSwitches:
    """The idle positions of every leaf, and the idle counts of every switch.

    Parameters
    ----------
    groups
        Group of each idle position per level below the top, shape ``(L - 1, m)``.
    """

    def __init__(self, groups: IntArray) -> None:
        levels = np.vstack((groups, np.zeros((1, groups.shape[1]), dtype=np.int64)))
        order = np.argsort(levels[0], kind="stable")
        first = np.flatnonzero(np.diff(levels[0][order], prepend=-1))
        self._positions: IntArray = order
        self._end = np.append(first[1:], len(order))
        self.above_leaves = levels[:, order[first]]
        """Switch of every level above each leaf, itself the first, shape ``(L, leaves)``."""
        self.idle = [np.bincount(level) for level in levels]
        """Idle nodes of every switch, per level from the leaves up to the top switch."""
        self.leaves = [_members(groups) for groups in self.above_leaves]
        """Leaves under every switch, per level."""
        first_leaves = [np.unique(groups, return_index=True)[1] for groups in self.above_leaves]
        above = zip(first_leaves, self.above_leaves[1:], strict=False)
        self.children = [_members(groups[leaves]) for leaves, groups in above]
        """Switches of the level below under every switch, per level above the leaves."""

    def positions(self) -> IntArray:
        """Positions that are still idle, rising."""
        runs = [self._positions[end - count : end] for end, count in zip(self._end, self.idle[0], strict=True)]
        return np.sort(np.concatenate(runs))

    def take(self, leaves: Sequence[int], counts: Sequence[int]) -> IntArray:
        """Take the first so many idle positions of some leaves."""
        return np.concatenate([self._take_from(leaf, count) for leaf, count in zip(leaves, counts, strict=True)])

    def _take_from(self, leaf: int, count: int) -> IntArray:
        """Take the first ``count`` idle positions of a leaf."""
        first = int(self._end[leaf]) - int(self.idle[0][leaf])
        for idle, group in zip(self.idle, self.above_leaves[:, leaf].tolist(), strict=True):
            idle[group] -= count
        return self._positions[first : first + count]


def _members(groups: IntArray) -> list[IntArray]:
    """Members of every group, given the group of every member."""
    order: IntArray = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
