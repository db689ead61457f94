"""The working space of moves on packings."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.blocks import Blocks

MOST_STRETCHES = 4


class Stretches(NamedTuple):
    """Working space of moves, and their limits.

    Parameters
    ----------
    first, last
        Blocks of the stretches taken out, ``first .. last - 1``, shape ``(MOST_STRETCHES,)``.
    begin, length
        First position and number of positions of each stretch.
    size, copies, stride
        Index in ``sizes``, number of blocks and stride of each distinct size taken out.
    line_costs
        Cost of each distinct size at each position of the line.
    used
        Nodes of each multiset.
    best
        Table f, row by row.
    labels, prices
        Shortest distances from position 0, and the prices of the sizes for which they are; zeros draw evenly.
    new_sizes, new_starts
        A packing that is being made.
    """

    first: IntArray
    last: IntArray
    begin: IntArray
    length: IntArray
    size: IntArray
    copies: IntArray
    stride: IntArray
    line_costs: FloatArray
    used: IntArray
    best: FloatArray
    labels: FloatArray
    prices: FloatArray
    new_sizes: IntArray
    new_starts: IntArray


STRETCHES = types.NamedTuple(
    (
        *(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1]),
        *(float64[:, ::1], int64[::1], float64[::1], float64[::1], float64[::1], int64[::1], int64[::1]),
    ),
    Stretches,
)


def stretches(blocks: Blocks, most_blocks: int, most_entries: int) -> Stretches:
    """Allocate the working space for moves of at most ``most_blocks`` blocks and ``most_entries`` table entries."""
    m, n_blocks = blocks.costs.shape[1], int(blocks.counts.sum())
    few = [np.zeros(MOST_STRETCHES, dtype=np.int64) for _ in range(4)]
    some = [np.zeros(most_blocks, dtype=np.int64) for _ in range(3)]
    longest = min(m, most_blocks * int(blocks.sizes[-1]) + most_entries)
    used = np.zeros(min(2**most_blocks, most_entries), dtype=np.int64)
    table = np.zeros(most_entries)
    line_costs = np.zeros((most_blocks, longest))
    made = [np.zeros(n_blocks, dtype=np.int64) for _ in range(2)]
    labels, prices = np.zeros(m + 1), np.zeros(len(blocks.sizes))
    return Stretches(
        *(few[0], few[1], few[2], few[3], some[0], some[1], some[2]),
        *(line_costs, used, table, labels, prices, made[0], made[1]),
    )
