"""Array types of the package, and the one way in which they are frozen."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def frozen_integers(values: ArrayLike | Iterable[int]) -> IntArray:
    """Return a read-only copy of ``values`` as 64-bit integers."""
    array = np.array(values, dtype=np.int64, copy=True)
    array.setflags(write=False)
    return array
