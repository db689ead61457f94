"""The Lagrangian relaxation of the count rows: its value, its path, and the blocks that a better packing may use."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.blocks import Blocks
from allocopt.solving.budget import Clock
from formulations.lagrangian.kernels import (
    MaskArray,
    arrange_by_end,
    fill_labels,
    fill_labels_to_end,
    mark_survivors,
    solve_cases,
    trace_path,
)

RELAXATION_KERNELS = (arrange_by_end, fill_labels, fill_labels_to_end, mark_survivors, solve_cases, trace_path)
"""Entries that a relaxation calls."""

ROUNDING = 1e-11
"""Share of a value by which rounding may have raised it."""

SLICE = 4_000_000
"""Labels times sizes that are filled between two looks at the clock: a few milliseconds."""


class OutOfTime(Exception):  # noqa: N818
    """The time is up before prices have a path."""


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """A shortest path around the circle for some prices.

    Parameters
    ----------
    case
        Number of positions at the head that the block across the cut covers, or 0.
    sizes, starts
        Index of the size and first position of each block on the path.
    used
        Number of blocks of each size, shape ``(R,)``.
    value
        Value of the relaxation: a bound on every packing.
    """

    case: int
    sizes: IntArray
    starts: IntArray
    used: IntArray
    value: float


class Relaxation:
    """Prices in, bounds out.

    Parameters
    ----------
    blocks
        Costs of the blocks.
    clock
        The running clock. Where its time is up, every method may raise `OutOfTime`.
    """

    def __init__(self, blocks: Blocks, clock: Clock) -> None:
        self._clock = clock
        n_sizes, m = blocks.costs.shape
        self.blocks = blocks
        self._arrivals = np.empty((m + 1, n_sizes))
        arrange_by_end(blocks.costs, blocks.sizes, self._arrivals)
        self._line, self._labels = np.zeros(m + 1), np.zeros(m + 1)
        self._case_values = np.zeros(int(blocks.sizes[-1]))
        self._path_sizes, self._path_starts = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)

    def path(self, prices: FloatArray) -> Path:
        """Solve the subproblem for the prices of the sizes, shape ``(R,)``."""
        blocks, m = self.blocks, self.blocks.costs.shape[1]
        case = self._solve_cases(prices)
        labels = self._line
        if case > 0:
            labels = self._labels
            fill_labels(self._arrivals, blocks.sizes, prices, case, case, m, labels)
        n = trace_path(
            *(blocks.costs, self._arrivals, blocks.sizes, prices, case, labels), self._path_sizes, self._path_starts
        )
        sizes, starts = self._path_sizes[:n].copy(), self._path_starts[:n].copy()
        used = np.bincount(sizes, minlength=len(blocks.sizes))
        return Path(case, sizes, starts, used, self._value(prices, float(self._case_values[case])))

    def labels(self, prices: FloatArray) -> FloatArray:
        """Shortest distances from position 0 for the prices of the sizes, shape ``(m + 1,)``."""
        labels = np.empty(len(self._line))
        fill_labels(self._arrivals, self.blocks.sizes, prices, 0, 0, len(labels) - 1, labels)
        return labels

    def survivors(self, prices: FloatArray, most: float, limit: int) -> IntArray | None:
        """Find the blocks that a packing no dearer than ``most`` can use.

        Every such packing is a path of some case with the right counts; of a case, the shortest path through a block
        has the length to it, plus its own, plus the length from it.

        Parameters
        ----------
        prices
            Prices of the sizes, shape ``(R,)``; the better their bound, the fewer survive.
        most
            Cost of a known packing.
        limit
            Give up when the survivors' columns of the Pack model have more nonzeros.

        Returns
        -------
        IntArray | None
            Blocks ``r * m + i``, rising; None if given up.
        """
        blocks, m = self.blocks, self.blocks.costs.shape[1]
        self._solve_cases(prices)
        spent = float(prices @ blocks.counts)
        longest = most - spent + ROUNDING * (abs(most) + abs(spent))
        departures = np.ascontiguousarray(blocks.costs.T)
        survives: MaskArray = np.zeros(blocks.costs.shape, dtype=np.uint8)
        to_end = np.empty(m + 1)
        for case in np.flatnonzero(self._case_values <= longest).tolist():
            fill_labels(self._arrivals, blocks.sizes, prices, case, case, m, self._labels)
            to_end[:] = np.inf
            self._end(case, prices, to_end)
            fill_labels_to_end(departures, blocks.sizes, prices, case, to_end)
            mark_survivors(blocks.costs, blocks.sizes, prices, case, self._labels, to_end, longest, survives)
            nonzeros = int(survives.sum(axis=1, dtype=np.int64) @ (blocks.sizes + 1))
            if nonzeros > limit:
                return None
            self._look()
        return np.flatnonzero(survives)

    def _end(self, case: int, prices: FloatArray, to_end: FloatArray) -> None:
        """Write what it costs to end right at each position: at m on the line, else by a block across the cut."""
        blocks, m = self.blocks, self.blocks.costs.shape[1]
        if case == 0:
            to_end[m] = 0.0
            return
        crossing = np.flatnonzero(blocks.sizes > case)
        ends = m - blocks.sizes[crossing] + case
        to_end[ends] = blocks.costs[crossing, ends] - prices[crossing]

    def _solve_cases(self, prices: FloatArray) -> int:
        blocks, first, shortest = self.blocks, 0, 0
        while first < len(self._case_values):
            self._look()
            first, shortest = solve_cases(
                *(blocks.costs, self._arrivals, blocks.sizes, prices, self._line, self._labels, self._case_values),
                *(first, shortest, SLICE),
            )
        return shortest

    def _look(self) -> None:
        """Raise `OutOfTime` if the time is up."""
        if self._clock.expired():
            raise OutOfTime

    def _value(self, prices: FloatArray, length: float) -> float:
        """Bound from the length of the shortest path, less what rounding may have added."""
        spent = float(prices @ self.blocks.counts)
        return spent + length - ROUNDING * (abs(spent) + abs(length))
