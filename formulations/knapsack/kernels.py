"""The recursions of the knapsack's dynamic programs, job by job, and the way back through their decisions.

Decisions are bits: bit j of a state says that job j improved it, so that the selection that ends in a state is read
off from the last job to the first.
"""

import numpy as np
from numba import boolean, float64, int64, uint64, void
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.kernels.compiled import kernel

BitArray = NDArray[np.uint64]

WORD = 64
"""Jobs whose decisions share a word."""


@kernel(void(float64[:, ::1], uint64[:, :, ::1], int64[::1], float64[::1], int64, int64))
def add_counted_jobs(
    best: FloatArray, taken: BitArray, sizes: IntArray, gains: FloatArray, first: int, last: int
) -> None:
    """Let jobs ``first .. last - 1`` enter: ``D[k][c] = max(D[k][c], D[k - 1][c - n_j] + g_j)``.

    Parameters
    ----------
    best
        D, the largest sum of gains of k jobs of c units together, shape ``(K + 1, C + 1)``; -inf where there are none.
    taken
        Decisions, shape ``(words, K + 1, C + 1)``.
    sizes, gains
        Units and gain of each job, shape ``(J,)``; jobs come by rising size, so that few states are looked at early.
    first, last
        Which jobs enter.
    """
    most, capacity = best.shape[0] - 1, best.shape[1] - 1
    reach = 0
    for job in range(first):
        reach = min(capacity, reach + sizes[job])
    for job in range(first, last):
        size, gain = sizes[job], gains[job]
        reach = min(capacity, reach + size)
        bit = uint64(1) << uint64(job % WORD)
        for k in range(min(most, job + 1), 0, -1):
            width = reach + 1 - size
            if width <= 0:
                continue
            before, after = best[k - 1, :width], best[k, size : size + width]
            marks = taken[job // WORD, k, size : size + width]
            for c in range(width):
                offered = before[c] + gain
                better = offered > after[c]
                after[c] = offered if better else after[c]
                marks[c] |= bit if better else uint64(0)


@kernel(void(float64[::1], uint64[:, ::1], int64[::1], float64[::1], int64, int64))
def add_jobs(best: FloatArray, taken: BitArray, sizes: IntArray, gains: FloatArray, first: int, last: int) -> None:
    """Let jobs ``first .. last - 1`` enter: ``V[c] = max(V[c], V[c - n_j] + g_j)``, c the units at hand.

    Parameters
    ----------
    best
        V, the largest sum of gains within c units, shape ``(C + 1,)``.
    taken
        Decisions, shape ``(words, C + 1)``.
    sizes, gains
        Units and gain of each job, shape ``(J,)``.
    first, last
        Which jobs enter.
    """
    capacity = best.shape[0] - 1
    for job in range(first, last):
        size, gain = sizes[job], gains[job]
        bit = uint64(1) << uint64(job % WORD)
        for c in range(capacity, size - 1, -1):
            offered = best[c - size] + gain
            if offered > best[c]:
                best[c] = offered
                taken[job // WORD, c] |= bit


@kernel(void(uint64[:, :, ::1], int64[::1], int64, int64, int64, boolean[::1]))
def trace_counted(taken: BitArray, sizes: IntArray, n_jobs: int, k: int, c: int, selected: BoolArray) -> None:
    """Mark the jobs of the best selection of k jobs of c units among the first ``n_jobs``."""
    for job in range(n_jobs - 1, -1, -1):
        if k > 0 and (taken[job // WORD, k, c] >> uint64(job % WORD)) & uint64(1):
            selected[job] = True
            k -= 1
            c -= sizes[job]


@kernel(void(uint64[:, ::1], int64[::1], int64, int64, boolean[::1]))
def trace(taken: BitArray, sizes: IntArray, n_jobs: int, c: int, selected: BoolArray) -> None:
    """Mark the jobs of the best selection within c units among the first ``n_jobs``."""
    for job in range(n_jobs - 1, -1, -1):
        if (taken[job // WORD, c] >> uint64(job % WORD)) & uint64(1):
            selected[job] = True
            c -= sizes[job]
