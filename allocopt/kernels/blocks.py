"""Hop costs of all circular blocks of idle positions, by counts that slide."""

import numpy as np
from numba import float64, int64

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import kernel
from allocopt.kernels.encoding import ENCODING
from allocopt.problems.encoding import Encoding


@kernel(float64[:, ::1](ENCODING, int64[::1]), allocates=True)
def circular_block_costs(encoding: Encoding, sizes: IntArray) -> FloatArray:
    """Cost of the block of ``sizes[r]`` idle positions that begins at position i and wraps around, for all r and i.

    O(m L) per size: when the block slides by one, one count falls and one rises.

    Parameters
    ----------
    encoding
        The problem.
    sizes
        Block sizes in ``1 .. m``.

    Returns
    -------
    FloatArray
        Shape ``(len(sizes), m)``.
    """
    groups = encoding.groups
    n_levels, m = groups.shape
    costs = np.empty((sizes.size, m))
    for r in range(sizes.size):
        n = sizes[r]
        # Hops are integers, exact in a float; the only rounding is the scaling at the end.
        costs[r, :] = encoding.top * n * n - encoding.bottom * n
        for level in range(n_levels):
            counts = np.zeros(encoding.n_groups[level], dtype=np.int64)
            squares = 0
            for i in range(n):
                group = groups[level, i]
                squares += 2 * counts[group] + 1
                counts[group] += 1
            for i in range(m):
                costs[r, i] -= encoding.weights[level] * squares
                leaving = groups[level, i]
                counts[leaving] -= 1
                squares -= 2 * counts[leaving] + 1
                entering = groups[level, (i + n) % m]
                squares += 2 * counts[entering] + 1
                counts[entering] += 1
        for i in range(m):
            costs[r, i] *= encoding.scale / n
    return costs
