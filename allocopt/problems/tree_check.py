"""Dynamic program for the best node counts of one job on a tree of groups; only checkers of bounds use it.

A job that has ``a_v`` nodes in group v, those in the groups below v included, gains ``sum over v of gain_v(a_v)``. The
program finds the largest gain for each number of nodes, group by group from the leaves up, in whole numbers. It shares
no code with the programs of the solvers (`allocopt.kernels.insertion`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import boolean, int64, void

from allocopt.arrays import BoolArray, IntArray
from allocopt.kernels.compiled import kernel

IMPOSSIBLE = -(2**62)
"""Gain of counts that are not allowed, in 64 bits; less than any other gain."""
LARGEST_GAIN = 2**60
"""Gains whose absolute values sum to less than this are computed in 64 bits, others in integers of any size."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckTree:
    """Groups from the leaves upwards: each group comes after those below it, the top last."""

    parent: IntArray  # group above each group, -1 for the top, shape ``(V,)``
    is_leaf: BoolArray  # whether a group has no groups below it
    several: BoolArray  # whether a group stands for any number of equal groups
    first: IntArray  # in tables, entries ``first[v] .. first[v + 1] - 1`` are for 0, 1, .. nodes in group v

    @classmethod
    def of(cls, parent: IntArray, widths: IntArray, several: BoolArray | None = None) -> "CheckTree":
        """Return the tree in which group v holds at most ``widths[v]`` nodes of the job."""
        n = len(parent)
        is_leaf = np.ones(n, dtype=np.bool_)
        is_leaf[parent[parent >= 0]] = False
        first = np.concatenate(([0], np.cumsum(widths + 1)))
        return cls(parent, is_leaf, np.zeros(n, dtype=np.bool_) if several is None else several, first)

    def best(self, gains: IntArray, largest: int, forbidden: BoolArray | None = None) -> list[int | None]:
        """Return the largest gain of a job with 0, 1, .. nodes in all; None for a number that is not possible.

        ``gains`` and ``forbidden``, which marks counts that are not allowed, are laid out as `first` defines. No sum of
        gains of one job may exceed ``largest`` in absolute value.
        """
        is_small = largest < LARGEST_GAIN
        kind: Any = np.int64 if is_small else np.object_
        impossible = IMPOSSIBLE if is_small else -8 * (largest + LARGEST_GAIN)
        values = np.full(len(gains), impossible, dtype=kind)
        # Until a group is processed, its entries hold the gains of those groups below it that were joined so far. At
        # first, 0 nodes are the only possible number.
        values[self.first[:-1]] = 0
        scratch = np.zeros(int(np.diff(self.first).max()), dtype=kind)
        gains = gains.astype(kind)
        if forbidden is not None:
            gains[forbidden] = impossible
        run = fill_values if is_small else fill_values.py_func  # type: ignore[attr-defined]
        run(self.parent, self.is_leaf, self.several, self.first, gains, values, scratch, impossible)
        of_top = values[self.first[-2] : self.first[-1]]
        return [int(value) if value > impossible else None for value in of_top]


@kernel(void(int64[::1], boolean[::1], boolean[::1], *(int64[::1],) * 4, int64))
def fill_values(
    parent: IntArray,
    is_leaf: BoolArray,
    several: BoolArray,
    first: IntArray,
    gains: IntArray,
    values: IntArray,  # before: 0 for no node, impossible for other numbers; after: the largest gains
    scratch: IntArray,  # as long as the longest table
    impossible: int,  # gain of counts that are not allowed, less than any other
) -> None:
    """Find the largest gain for every number of nodes of every group, the groups below it included."""
    for v in range(parent.size):
        start, length, p = first[v], first[v + 1] - first[v], parent[v]
        for k in range(length):
            below = 0 if is_leaf[v] else values[start + k]
            is_possible = below > impossible and gains[start + k] > impossible
            values[start + k] = below + gains[start + k] if is_possible else impossible
        if p < 0:
            continue
        above, room = first[p], first[p + 1] - first[p]
        offered = min(length, room)
        for k in range(offered):
            scratch[k] = values[start + k]
        if several[v]:
            # One of the equal groups has a nodes, the others have k - a.
            offered = room
            for k in range(1, room):
                best = impossible
                for a in range(1, min(k, length - 1) + 1):
                    if scratch[k - a] > impossible and values[start + a] > impossible:
                        best = max(best, scratch[k - a] + values[start + a])
                scratch[k] = best
        # From the largest number down: the smaller numbers, which are read, do not include this group yet.
        for k in range(room - 1, -1, -1):
            best = impossible
            for a in range(min(k, offered - 1) + 1):
                if values[above + k - a] > impossible and scratch[a] > impossible:
                    best = max(best, values[above + k - a] + scratch[a])
            values[above + k] = best
