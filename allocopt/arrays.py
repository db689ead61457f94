"""Array types of the package, and the one way in which they are frozen."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
WordArray = NDArray[np.uint64]
BoolArray = NDArray[np.bool_]
Float32Array = NDArray[np.float32]


def frozen_integers(values: ArrayLike | Iterable[int]) -> IntArray:
    """Return a read-only copy of ``values`` as 64-bit integers.

    Raises
    ------
    TypeError
        If they are not integers.
    """
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"nodes must be whole numbers, not {given.dtype}")
    array = given.astype(np.int64)
    array.setflags(write=False)
    return array
