"""The blocks that SCAS chooses from: one cost per distinct job size and circular start."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.blocks import circular_block_costs
from allocopt.problems.encoding import encode
from allocopt.problems.topology import TopologyProblem


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Circular blocks of idle positions.

    Parameters
    ----------
    sizes
        Distinct job sizes, rising, shape ``(R,)``.
    counts
        Number of jobs of each size, shape ``(R,)``.
    costs
        Hop cost of the block of size r that begins at position i, shape ``(R, m)``.
    """

    sizes: IntArray
    counts: IntArray
    costs: FloatArray

    def cheapest_total(self) -> float:
        """Sum of the cheapest blocks of all jobs: a bound that lets blocks overlap."""
        return float(self.counts @ self.costs.min(axis=1))

    def starts_of_jobs(self, problem: TopologyProblem, starts: list[list[int]]) -> IntArray:
        """Hand the starts chosen per distinct size, ``starts[r]``, to the jobs of that size, in order."""
        left = {int(size): sorted(chosen, reverse=True) for size, chosen in zip(self.sizes, starts, strict=True)}
        return np.array([left[job.nodes].pop() for job in problem.jobs], dtype=np.int64)


BLOCK_KERNELS = (circular_block_costs,)
"""Entries that costing blocks calls."""


def blocks_of(problem: TopologyProblem) -> Blocks:
    """Cost all blocks of a problem."""
    encoding = encode(problem)
    sizes, counts = np.unique(encoding.sizes, return_counts=True)
    costs = circular_block_costs(encoding, sizes)
    return Blocks(sizes, counts.astype(np.int64), costs)
