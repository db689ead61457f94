"""Kernels that are compiled in a moment."""

from typing import NamedTuple

import numpy as np
from numba import int64

from allocopt.arrays import FloatArray
from allocopt.kernels.arrays import record_type
from allocopt.kernels.compiled import helper, kernel

OFFSET = 3


@helper()
def shifted(x: int) -> int:
    return x + OFFSET


@kernel(int64(int64))
def doubled(x: int) -> int:
    return 2 * shifted(x)


@kernel(int64(int64))
def tripled(x: int) -> int:
    return 3 * shifted(x)


class Split(NamedTuple):
    first: FloatArray
    second: FloatArray


@kernel(record_type(Split)(int64), allocates=True)
def split(n: int) -> Split:
    return Split(np.zeros(n), np.ones(n))
