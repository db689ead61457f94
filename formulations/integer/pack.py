"""The Pack model: one variable per distinct job size and circular start.

``y_{r,i}`` says that some job of size r begins at idle position i: minimize ``sum W_r(i) y_{r,i}`` so that
``sum_i y_{r,i} = e_r`` for every distinct size r, which e_r jobs have, and every idle position is covered at most once.
Equal jobs are one here, which removes the symmetry of the paper's model, and the rows that cover positions have
circular consecutive ones, which makes the linear relaxation nearly integral.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

from allocopt.arrays import IntArray
from allocopt.problems.blocks import Blocks
from allocopt.problems.encoding import allocation_of_blocks
from allocopt.problems.topology import Allocation, TopologyProblem
from formulations.integer.positions import first_positions
from formulations.integer.program import BinaryProgram, NameGrid


def pack_nonzeros(problem: TopologyProblem) -> int:
    """Nonzeros of the model, known before it is built."""
    return len(problem.idle_nodes) * int((np.unique(problem.sizes) + 1).sum())


@dataclass(frozen=True, slots=True)
class Pack:
    """The Pack model of a problem.

    Parameters
    ----------
    problem
        A SCAS problem.
    blocks
        Its blocks.
    kept
        Blocks ``r * m + i``, rising, that the model may choose from; None for all.
    """

    problem: TopologyProblem
    blocks: Blocks
    kept: IntArray | None = None

    def program(self) -> BinaryProgram:
        """Build the program; column ``r * m + i`` is ``y_{r,i}``, or column k is block ``kept[k]``."""
        sizes, counts = self.blocks.sizes, self.blocks.counts.astype(np.float64)
        starts = np.arange(self._n_idle)
        costs, names = self.blocks.costs.ravel(), NameGrid("y", (sizes, starts))
        kept = np.arange(costs.size) if self.kept is None else self.kept
        return BinaryProgram(
            costs[kept],
            _matrix(sizes, self._n_idle, kept),
            np.concatenate((counts, np.full(self._n_idle, -np.inf))),
            np.concatenate((counts, np.ones(self._n_idle))),
            (names if self.kept is None else NameGrid("block", (kept,)),),
            (NameGrid("jobs_of_size", (sizes,)), NameGrid("position", (starts,))),
        )

    def decode(self, chosen: IntArray) -> Allocation | None:
        """Hand the chosen blocks of each size to the jobs of that size."""
        sizes, starts = np.divmod(chosen if self.kept is None else self.kept[chosen], self._n_idle)
        of_size = [starts[sizes == r].tolist() for r in range(len(self.blocks.sizes))]
        return allocation_of_blocks(self.problem, self.blocks.starts_of_jobs(self.problem, of_size))

    def encode(self, allocation: Allocation) -> IntArray:
        """Columns of the blocks that the jobs have."""
        sizes = np.searchsorted(self.blocks.sizes, self.problem.sizes)
        blocks = np.sort(sizes * self._n_idle + first_positions(self.problem, allocation))
        return blocks if self.kept is None else np.searchsorted(self.kept, blocks)

    def bound_of(self, bound: float) -> float:
        """Bound of the program, whose costs are the problem's."""
        return bound

    @property
    def _n_idle(self) -> int:
        return len(self.problem.idle_nodes)


def _matrix(sizes: IntArray, n_idle: int, blocks: IntArray) -> csc_array:
    """Rows of the sizes, then of the positions; a column has a one for its size and one per position covered."""
    size_rows, starts = np.divmod(blocks, n_idle)
    heights = sizes[size_rows] + 1
    ends = np.cumsum(heights)
    # `entry` counts the entries of each column from 0; entry 0 is the size's row, entry k the k-th position covered.
    entry = np.arange(ends[-1]) - np.repeat(ends - heights, heights)
    position = (np.repeat(starts, heights) + entry - 1) % n_idle
    rows = np.where(entry == 0, np.repeat(size_rows, heights), len(sizes) + position)
    shape = (len(sizes) + n_idle, len(blocks))
    return csc_array((np.ones(len(rows)), rows, np.concatenate(([0], ends))), shape=shape)
