"""The recursion of the SCAS dynamic program, position by position."""

import numpy as np
from numba import float64, int16, int64, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import kernel

ChoiceArray = NDArray[np.int16]

TABLES = (float64[:, ::1], int16[:, ::1], float64[:, ::1])
SIGNATURE = void(*TABLES, int64[::1], int64[:, ::1], int64[::1], int64[::1], int64, int64, int64)


@kernel(SIGNATURE, allocates=True)
def fill_positions(
    best: FloatArray,
    choice: ChoiceArray,
    costs: FloatArray,
    sizes: IntArray,
    digits: IntArray,
    strides: IntArray,
    used: IntArray,
    start: int,
    first: int,
    last: int,
) -> None:
    """Fill rows ``first .. last`` of the tables of the line that begins at position ``start``.

    ``best[p, s]`` is the least cost of placing multiset s within positions ``start .. p - 1``:
    ``best[p, s] = min(best[p - 1, s], min_r best[p - n_r, s - e_r] + costs[r, p - n_r])``.

    Parameters
    ----------
    best, choice
        Tables of shape ``(m + 1, S)``, written in place; a choice is the size r placed last, or -1 for an idle node.
    costs
        Cost of the block of size r that begins at each position, shape ``(R, m)``.
    sizes
        Distinct job sizes, shape ``(R,)``.
    digits
        Number of jobs of size r in multiset s, shape ``(R, S)``.
    strides
        Distance from a multiset to the one with one more job of size r, shape ``(R,)``.
    used
        Nodes that multiset s takes, shape ``(S,)``.
    start
        First position of the line.
    first, last
        Rows to fill; the rows ``start .. first - 1`` are filled already.
    """
    n_sizes, n_states = digits.shape
    for position in range(first, last + 1):
        if position == start:
            best[position, :] = np.inf
            best[position, 0] = 0.0
            choice[position, :] = -1
            continue
        for state in range(n_states):
            best[position, state] = best[position - 1, state]
            choice[position, state] = -1
        for r in range(n_sizes):
            before = position - sizes[r]
            if before < start:
                continue
            for state in range(strides[r], n_states):
                if digits[r, state] == 0 or used[state] > position - start:
                    continue
                cost = best[before, state - strides[r]] + costs[r, before]
                if cost < best[position, state]:
                    best[position, state] = cost
                    choice[position, state] = r
