"""Hop costs of all circular blocks of idle positions, by counts that slide."""

import numpy as np
from numba import float64, int64, njit

from allocopt.arrays import FloatArray, IntArray

SIGNATURE = float64[:, ::1](int64[:, ::1], int64[::1], float64[::1], float64, float64, float64, int64[::1])


@njit(SIGNATURE, cache=True, nogil=True)
def circular_block_costs(
    groups: IntArray,
    n_groups: IntArray,
    weights: FloatArray,
    bottom: float,
    top: float,
    scale: float,
    sizes: IntArray,
) -> FloatArray:
    """Cost of the block of ``sizes[r]`` idle positions that begins at position i and wraps around, for all r and i.

    Parameters are the fields of `allocopt.problems.encoding.Encoding`, but ``sizes`` are block sizes in ``1 .. m``,
    each wanted once. O(m L) per size: when the block slides by one, one count falls and one rises.

    Returns
    -------
    FloatArray
        Shape ``(len(sizes), m)``.
    """
    n_levels, m = groups.shape
    costs = np.empty((sizes.size, m))
    for r in range(sizes.size):
        n = sizes[r]
        # Hops are integers, exact in a float; the only rounding is the scaling at the end.
        costs[r, :] = top * n * n - bottom * n
        for level in range(n_levels):
            counts = np.zeros(n_groups[level], dtype=np.int64)
            squares = 0
            for i in range(n):
                group = groups[level, i]
                squares += 2 * counts[group] + 1
                counts[group] += 1
            for i in range(m):
                costs[r, i] -= weights[level] * squares
                leaving = groups[level, i]
                counts[leaving] -= 1
                squares -= 2 * counts[leaving] + 1
                entering = groups[level, (i + n) % m]
                squares += 2 * counts[entering] + 1
                counts[entering] += 1
        costs[r, :] *= scale / n
    return costs
