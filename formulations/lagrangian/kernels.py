"""Shortest paths over the positions of the circle, blocks priced: the subproblem of the relaxation.

A path goes from position to position; a step by one leaves a node idle, an arc of size r from i to ``i + n_r`` places a
block at its cost less the price of its size. The cut of the circle lies before position 0. Case 0 is the line from 0 to
m, which nothing straddles; case k begins at k and ends with a block that covers the last positions and the first k.
"""

import numpy as np
from numba import float64, int64, types, uint8, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import helper, kernel

MaskArray = NDArray[np.uint8]

FAST = {"nnan", "nsz", "reassoc"}
"""Minima and sums may be taken in any order; infinities are kept."""

EQUAL = 1e-12
"""Labels that differ by the same up to this share of the path's cost have met."""


@kernel(void(float64[:, ::1], int64[::1], float64[:, ::1]))
def arrange_by_end(costs: FloatArray, sizes: IntArray, arrivals: FloatArray) -> None:
    """Write the costs of the blocks by the position after their last: ``arrivals[i, r] = costs[r, i - n_r]``.

    Blocks that straddle the cut have no such position and stay away.
    """
    m = costs.shape[1]
    for i in range(m + 1):
        for r in range(sizes.size):
            arrivals[i, r] = costs[r, i - sizes[r]] if i >= sizes[r] else np.inf


@kernel(void(float64[:, ::1], int64[::1], float64[::1], int64, int64, int64, float64[::1]), fastmath=FAST)
def fill_labels(
    arrivals: FloatArray, sizes: IntArray, prices: FloatArray, start: int, first: int, last: int, labels: FloatArray
) -> None:
    """Fill ``labels[first .. last]`` with the lengths of the shortest paths from position ``start``.

    Parameters
    ----------
    arrivals
        Costs of the blocks by the position after their last, shape ``(m + 1, R)``.
    sizes, prices
        Distinct job sizes, rising, and the price of each, shape ``(R,)``.
    start
        Where the paths begin.
    first, last
        Which labels to fill, ``start <= first``; those before are filled already.
    labels
        Written in place, shape ``(m + 1,)``.
    """
    if first == start:
        labels[start] = 0.0
        first += 1
    fitting = 0
    for i in range(first, last + 1):
        while fitting < sizes.size and sizes[fitting] <= i - start:
            fitting += 1
        best = labels[i - 1]
        for r in range(fitting):
            best = min(best, labels[i - sizes[r]] + arrivals[i, r] - prices[r])
        labels[i] = best


@kernel(void(float64[:, ::1], int64[::1], float64[::1], int64, float64[::1]), fastmath=FAST)
def fill_labels_to_end(
    departures: FloatArray, sizes: IntArray, prices: FloatArray, first: int, labels: FloatArray
) -> None:
    """Fill ``labels[first .. m]`` with the lengths of the shortest paths to the end.

    Parameters
    ----------
    departures
        Costs of the blocks by their first position, shape ``(m, R)``.
    sizes, prices
        Distinct job sizes, rising, and the price of each, shape ``(R,)``.
    first
        Where to stop.
    labels
        Holds the cost of ending right at each position, mostly infinite, and is written in place, shape ``(m + 1,)``.
    """
    m = departures.shape[0]
    fitting = 0
    for i in range(m - 1, first - 1, -1):
        while fitting < sizes.size and sizes[fitting] <= m - i:
            fitting += 1
        best = min(labels[i], labels[i + 1])
        for r in range(fitting):
            best = min(best, labels[i + sizes[r]] + departures[i, r] - prices[r])
        labels[i] = best


@helper()
def least_straddling(costs: FloatArray, sizes: IntArray, prices: FloatArray, k: int, labels: FloatArray) -> float:
    """Length of the shortest path of case k, if ``labels`` are the distances from position k."""
    m = costs.shape[1]
    least = np.inf
    for r in range(sizes.size):
        if sizes[r] > k:
            end = m - sizes[r] + k
            least = min(least, labels[end] + costs[r, end] - prices[r])
    return least


@helper()
def bound_labels_from(
    arrivals: FloatArray, sizes: IntArray, prices: FloatArray, k: int, line: FloatArray, labels: FloatArray
) -> None:
    """Fill ``labels[k .. m]`` with the distances from position k, or with bounds on them that are as good.

    Once the distances from k and from 0 differ by d or more on n_R consecutive positions, they do so everywhere after;
    once they differ by d just there, the two kinds of paths have met, and differ by d everywhere after.

    Parameters
    ----------
    arrivals, sizes, prices
        As in `fill_labels`.
    k
        Where the paths begin.
    line
        Distances from position 0, shape ``(m + 1,)``.
    labels
        Written in place, shape ``(m + 1,)``.
    """
    m = line.size - 1
    largest = sizes[-1]
    first = k
    while first <= m:
        last = min(m, first + largest - 1)
        fill_labels(arrivals, sizes, prices, k, first, last, labels)
        least, most = np.inf, -np.inf
        for i in range(first, last + 1):
            least = min(least, labels[i] - line[i])
            most = max(most, labels[i] - line[i])
        if last < m and most - least <= EQUAL * (abs(line[last]) + abs(labels[last])):
            for i in range(last + 1, m + 1):
                labels[i] = line[i] + least
            return
        first = last + 1


@kernel(
    types.UniTuple(int64, 2)(
        *(float64[:, ::1], float64[:, ::1], int64[::1], float64[::1], float64[::1], float64[::1], float64[::1]),
        *(int64, int64, int64),
    )
)
def solve_cases(
    costs: FloatArray,
    arrivals: FloatArray,
    sizes: IntArray,
    prices: FloatArray,
    line: FloatArray,
    labels: FloatArray,
    values: FloatArray,
    first: int,
    shortest: int,
    most_filled: int,
) -> tuple[int, int]:
    """Find the shortest path of every case, or of some from ``first`` on.

    By the triangle inequality the distance from k to e is at least ``line[e] - line[k]``; a case whose path is no
    shorter than the line's even so is left at that bound.

    Parameters
    ----------
    costs
        Costs of the blocks, shape ``(R, m)``.
    arrivals, sizes, prices
        As in `fill_labels`.
    line, labels
        Working space, shape ``(m + 1,)``; the first ends as the distances from position 0.
    values
        Lengths, or bounds on them, by case, written in place, shape ``(n_R,)``.
    first, shortest
        Cases before the first one are solved, and this one is the shortest of them.
    most_filled
        Labels times sizes after which no other case is begun.

    Returns
    -------
    tuple of int
        The first case that is not solved, and the shortest of those that are.
    """
    m = costs.shape[1]
    if first == 0:
        fill_labels(arrivals, sizes, prices, 0, 0, m, line)
        values[0] = line[m]
        first, shortest = 1, 0
    filled = 0
    for k in range(first, values.size):
        if filled > most_filled:
            return k, shortest
        filled += sizes.size
        values[k] = least_straddling(costs, sizes, prices, k, line) - line[k]
        if values[k] < values[shortest]:
            bound_labels_from(arrivals, sizes, prices, k, line, labels)
            filled += m * sizes.size
            values[k] = least_straddling(costs, sizes, prices, k, labels)
            if values[k] < values[shortest]:
                shortest = k
    return values.size, shortest


@kernel(int64(float64[:, ::1], float64[:, ::1], int64[::1], float64[::1], int64, float64[::1], int64[::1], int64[::1]))
def trace_path(
    costs: FloatArray,
    arrivals: FloatArray,
    sizes: IntArray,
    prices: FloatArray,
    k: int,
    labels: FloatArray,
    path_sizes: IntArray,
    path_starts: IntArray,
) -> int:
    """Write the blocks of the shortest path of case k, the last one first, and return how many there are.

    Parameters
    ----------
    costs, arrivals, sizes, prices
        As in `solve_cases`.
    k
        The case.
    labels
        Distances from position k, shape ``(m + 1,)``.
    path_sizes, path_starts
        Index of the size and first position of each block, written in place, shape ``(m,)``.
    """
    m = costs.shape[1]
    n_blocks = 0
    position = m
    if k > 0:
        least = np.inf
        for r in range(sizes.size):
            end = m - sizes[r] + k
            if sizes[r] > k and labels[end] + costs[r, end] - prices[r] < least:
                least = labels[end] + costs[r, end] - prices[r]
                path_sizes[0], path_starts[0] = r, end
        n_blocks, position = 1, path_starts[0]
    while position > k:
        if labels[position - 1] <= labels[position]:
            position -= 1
            continue
        best, chosen = np.inf, 0
        for r in range(sizes.size):
            if sizes[r] > position - k:
                break
            length = labels[position - sizes[r]] + arrivals[position, r] - prices[r]
            if length < best:
                best, chosen = length, r
        position -= sizes[chosen]
        path_sizes[n_blocks], path_starts[n_blocks] = chosen, position
        n_blocks += 1
    return n_blocks


@kernel(
    void(
        *(float64[:, ::1], int64[::1], float64[::1], int64, float64[::1], float64[::1], float64),
        uint8[:, ::1],
    )
)
def mark_survivors(
    costs: FloatArray,
    sizes: IntArray,
    prices: FloatArray,
    k: int,
    labels: FloatArray,
    labels_to_end: FloatArray,
    longest: float,
    survives: MaskArray,
) -> None:
    """Mark the blocks that lie on a path of case k that is no longer than ``longest``.

    Parameters
    ----------
    costs, sizes, prices
        As in `solve_cases`.
    k
        The case.
    labels, labels_to_end
        Distances from position k, and to the end of the case, shape ``(m + 1,)``.
    longest
        Length of the longest path that matters.
    survives
        Written in place, shape ``(R, m)``; marks are only added.
    """
    m = costs.shape[1]
    for r in range(sizes.size):
        for i in range(k, m - sizes[r] + 1):
            if labels[i] + costs[r, i] - prices[r] + labels_to_end[i + sizes[r]] <= longest:
                survives[r, i] = 1
        if sizes[r] > k > 0:
            end = m - sizes[r] + k
            if labels[end] + costs[r, end] - prices[r] <= longest:
                survives[r, end] = 1
