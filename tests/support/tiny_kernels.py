"""Kernels that are compiled in a moment."""

from numba import int64

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
