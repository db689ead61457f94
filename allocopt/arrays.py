"""Array types of the package, read-only arrays, and the arrays of a window."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Scalar = TypeVar("Scalar", bound=np.generic)

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
WordArray = NDArray[np.uint64]
BoolArray = NDArray[np.bool_]
Float32Array = NDArray[np.float32]


def read_only(values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a read-only view of an array."""
    view = values.view()
    view.flags.writeable = False
    return view


def frozen_integers(values: ArrayLike | Iterable[int]) -> IntArray:
    """Return a read-only copy of ``values`` as 64-bit integers; raise `TypeError` if they are not integers."""
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"nodes must be whole numbers, not {given.dtype}")
    array = given.astype(np.int64)
    array.setflags(write=False)
    return array


def places_by_value(values: IntArray) -> list[IntArray]:
    """Return an array of rising places for each distinct value, the lowest value first."""
    order = np.argsort(values, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(values[order])) + 1) if len(order) else []


class Encoding(NamedTuple):
    """Arrays of one topology problem, as a named tuple, because kernels take named tuples."""

    # Group of each idle position at each level below the top, shape ``(L - 1, m)``, numbered from 0 per level.
    groups: IntArray
    # Groups per level, and the hop difference to the next level, shape ``(L - 1,)``.
    n_groups: IntArray
    weights: FloatArray
    # Hops at the lowest and the highest level.
    bottom: float
    top: float
    # Cost of one hop of one counted pair.
    scale: float
    # Nodes that each job asks for, shape ``(J,)``.
    sizes: IntArray

    @property
    def n_idle(self) -> int:
        """Number of idle nodes m."""
        return int(self.groups.shape[1])
