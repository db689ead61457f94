"""The tables of one line of idle positions, filled in slices so that the clock can be read in between."""

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.problems.blocks import Blocks
from allocopt.solving.budget import Clock
from formulations.dynamic.kernels import ChoiceArray, fill_positions
from formulations.dynamic.multisets import Multisets

SLICE = 1_000_000
"""Table entries times sizes between two looks at the clock: a few milliseconds."""


class Line:
    """Best placements of every multiset of jobs on the line from some position to the end of the sequence.

    Parameters
    ----------
    blocks
        Costs of the blocks.
    multisets
        The states.
    """

    def __init__(self, blocks: Blocks, multisets: Multisets) -> None:
        n_sizes, m = blocks.costs.shape
        n_states = multisets.full + 1
        self._blocks = blocks
        self._multisets = multisets
        self._best: FloatArray = np.empty((m + 1, n_states))
        self._choice: ChoiceArray = np.empty((m + 1, n_states), dtype=np.int16)
        self._rows_per_slice = max(1, SLICE // (n_sizes * n_states))

    def fill(self, start: int, clock: Clock) -> bool:
        """Fill the tables for the line that begins at ``start``; return False if the time ran out before the end."""
        m = self._blocks.costs.shape[1]
        for first in range(start, m + 1, self._rows_per_slice):
            if clock.expired():
                return False
            last = min(m, first + self._rows_per_slice - 1)
            fill_positions(
                self._best,
                self._choice,
                self._blocks.costs,
                self._blocks.sizes,
                self._multisets.digits,
                self._multisets.strides,
                self._multisets.used,
                start,
                first,
                last,
            )
        return True

    def cost(self, end: int, multiset: int) -> float:
        """Least cost of a multiset on the positions from the start to ``end - 1``; infinite where it has no room."""
        return float(self._best[end, multiset])

    def starts(self, end: int, multiset: int) -> list[list[int]]:
        """Trace the best placement back: the start positions chosen for each distinct size."""
        starts: list[list[int]] = [[] for _ in self._blocks.sizes]
        position = end
        while multiset > 0:
            r = int(self._choice[position, multiset])
            position -= 1 if r < 0 else int(self._blocks.sizes[r])
            if r >= 0:
                starts[r].append(position)
                multiset -= int(self._multisets.strides[r])
        return starts
