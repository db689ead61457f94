"""Copying and sorting for kernels: what numba has of its own takes seconds to compile.

Assigning an array to a slice costs three, for the text of the error where shapes differ, and sorting one and a half for
every type of keys.
"""

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import helper, inlined


@inlined
def put(values: NDArray[np.number], target: NDArray[np.number]) -> None:
    """Write values into another array of as many, which does not overlap them."""
    for i in range(values.size):
        target[i] = values[i]


@helper(allocates=True)
def stable_order(keys: FloatArray | IntArray) -> IntArray:
    """Return the indices of the keys, the least key first, equal ones in their order: a merge sort from the bottom up.

    Parameters
    ----------
    keys
        Numbers, none of them NaN, shape ``(n,)``.
    """
    n, width = keys.size, 1
    order, merged = np.arange(n), np.empty(n, dtype=np.int64)
    while width < n:
        for first in range(0, n, 2 * width):
            middle, last = min(first + width, n), min(first + 2 * width, n)
            i, j = first, middle
            for k in range(first, last):
                if i < middle and (j == last or keys[order[i]] <= keys[order[j]]):
                    merged[k] = order[i]
                    i += 1
                else:
                    merged[k] = order[j]
                    j += 1
        order, merged = merged, order
        width *= 2
    return order
