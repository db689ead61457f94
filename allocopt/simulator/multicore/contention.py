"""The speed factor of a task whose processor's memory channels are shared (IRMaSim, Eq. 2 to 4)."""

import numpy as np
from numba import float64, void
from numpy.typing import ArrayLike

from allocopt.arrays import FloatArray
from allocopt.cluster.multicore import ContentionConstants
from allocopt.kernels.compiled import inlined, kernel


@inlined
def falling_step(x: float) -> float:
    """Fifth-order smooth step that falls from 1 at 0 to 0 at 1 (Eq. 4, with the sign that makes it a step)."""
    if x <= 0.0:
        return 1.0
    if x >= 1.0:
        return 0.0
    return float(1.0 - x * x * x * (x * (6.0 * x - 15.0) + 10.0))


@inlined
def least_factor(rate: float, others: float, sharing: float, da: float, db: float, dc: float, dd: float) -> float:
    """Speed factor below which a task does not fall (Eq. 3)."""
    weight, width, beyond = sharing * others, dc - others * dd, rate - (da - others) * db
    if width > 0.0:
        step = falling_step(beyond / width)
    else:
        # So many others that the step has no width left.
        step = 1.0 if beyond <= 0.0 else 0.0
    return float((step * weight + 1.0) / (1.0 + weight))


@inlined
def factor_of(
    rate: float,
    total: float,
    others: float,
    sharing: float,
    b: float,
    c: float,
    da: float,
    db: float,
    dc: float,
    dd: float,
) -> float:
    """Speed factor of a task (Eq. 2), between 1 / (1 + sharing x others) and 1."""
    if total <= c:
        return 1.0
    floor = least_factor(rate, others, sharing, da, db, dc, dd)
    return float(max(floor, min(1.0, 1.0 + b * (total - c))))


@kernel(void(float64[:, ::1], float64[::1]))
def fill_factors(tasks: FloatArray, factors: FloatArray) -> None:
    """Write the speed factors of tasks, each of which has a column of the arguments of `factor_of`."""
    for i in range(factors.size):
        rate, total, others, sharing, b = tasks[0, i], tasks[1, i], tasks[2, i], tasks[3, i], tasks[4, i]
        c, da, db, dc, dd = tasks[5, i], tasks[6, i], tasks[7, i], tasks[8, i], tasks[9, i]
        factors[i] = factor_of(rate, total, others, sharing, b, c, da, db, dc, dd)


def speed_factor(
    rate: ArrayLike,
    others_rate: ArrayLike,
    others: ArrayLike,
    constants: ContentionConstants,
    sharing: float = 1.0,
) -> FloatArray:
    """Return the speed factor S_m of tasks: 1 alone, less where the memory channels are shared.

    Parameters
    ----------
    rate
        Rate in MB/s at which the task would access memory if it ran alone.
    others_rate
        Sum of these rates of the other tasks on its processor.
    others
        Number of the other tasks.
    constants
        Of the processor.
    sharing
        What the number of others is multiplied with in the floor: 1 as printed, 0.6 in IRMaSim's later code.
    """
    own, rest = np.asarray(rate, dtype=np.float64), np.asarray(others_rate, dtype=np.float64)
    k = constants
    given = np.broadcast_arrays(own, own + rest, others, sharing, k.b, k.c, k.da, k.db, k.dc, k.dd)
    factors = np.empty(given[0].size)
    fill_factors(np.array([values.ravel() for values in given], dtype=np.float64), factors)
    return factors.reshape(given[0].shape)
