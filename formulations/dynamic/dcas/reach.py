"""What a block can still save to the left of a position, wherever its other nodes may lie: a bound on its excess."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel
from formulations.dynamic.dcas.classes import CLASSES, Classes
from formulations.dynamic.dcas.sequence import SEQUENCE, Sequence


class Reach(NamedTuple):
    """What a block can still save to the left of a leaf, prices paid.

    Parameters
    ----------
    price
        Price of a node of each leaf.
    best
        Largest saving less prices of a block of each class alone.
    tables
        Largest such saving for ``rest`` nodes left of leaf g, ``inside`` nodes of the block lying in the pod that ends
        there: entry ``offset[c] + (g * (n_c + 1) + rest) * width[c] + inside``.
    offset, width
        Shape ``(C,)``; the width of the leftover is 1, it saves nothing by lying close.
    """

    price: FloatArray
    best: FloatArray
    tables: FloatArray
    offset: IntArray
    width: IntArray


REACH = types.NamedTuple((float64[::1], float64[::1], float64[::1], int64[::1], int64[::1]), Reach)
"""Numba type of `Reach`."""


def empty_reach(sequence: Sequence, classes: Classes, price: FloatArray, best: FloatArray) -> Reach:
    """Allocate the tables of a window's prices, to be filled by `fill_reach`."""
    width = np.where(classes.factor > 0, classes.sizes + 1, 1)
    ends = np.cumsum(len(sequence.pod) * (classes.sizes + 1) * width)
    return Reach(price, best, np.empty(int(ends[-1])), np.concatenate(([0], ends[:-1])), width)


@inlined
def left_saving(
    sequence: Sequence, classes: Classes, reach: Reach, c: int, leaf: int, room: int, rest: int, x: int, y: int
) -> float:
    """Most that ``rest`` more nodes of a block can save, prices paid, on ``room`` positions of a leaf and left of it.

    The block has x nodes in the leaf already and y in its pod.
    """
    n, width = classes.sizes[c], reach.width[c]
    in_leaf, in_pod = classes.factor[c] * sequence.weights[0], classes.factor[c] * sequence.weights[1]
    inside = 1 if width > 1 and leaf > 0 and sequence.pod[leaf - 1] == sequence.pod[leaf] else 0
    start = reach.offset[c] + (leaf * (n + 1) + rest) * width + inside * y
    best = -np.inf
    for t in range(min(rest, room) + 1):
        value = t * (in_leaf * (2 * x + t) + in_pod * (2 * y + t) - reach.price[leaf])
        value += reach.tables[start + t * (inside - width)]
        if value > best:
            best = value
    return best


@kernel(void(SEQUENCE, CLASSES, REACH, int64, int64))
def fill_reach(sequence: Sequence, classes: Classes, reach: Reach, c: int, leaf: int) -> None:
    """Fill ``reach.tables`` for a class and a leaf; those of the leaves before are filled."""
    n, width = classes.sizes[c], reach.width[c]
    for rest in range(n + 1):
        start = reach.offset[c] + (leaf * (n + 1) + rest) * width
        for inside in range(min(width, n - rest + 1)):
            if leaf == 0:
                reach.tables[start + inside] = 0.0 if rest == 0 else -np.inf
                continue
            room = sequence.leaf_start[leaf] - sequence.leaf_start[leaf - 1]
            reach.tables[start + inside] = left_saving(sequence, classes, reach, c, leaf - 1, room, rest, 0, inside)
