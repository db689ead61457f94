"""Packings: made from a path, improved by moves, handed over as starts of jobs."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.blocks import Blocks
from allocopt.solving.budget import Clock
from formulations.lagrangian.packing_kernels import insert_blocks, packing_cost
from formulations.lagrangian.relaxation import Path

SLICE = 2_000_000
"""Positions times blocks inserted between two looks at the clock: a few milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Blocks around the circle.

    Parameters
    ----------
    sizes
        Index of the size of each block, shape ``(J,)``.
    starts
        Their first positions, rising by less than m from the first to the last; modulo m.
    cost
        Their total cost.
    """

    sizes: IntArray
    starts: IntArray
    cost: float

    @classmethod
    def of(cls, blocks: Blocks, sizes: IntArray, starts: IntArray) -> "Packing":
        """Cost a sequence of blocks."""
        return cls(sizes, starts, packing_cost(blocks.costs, sizes, starts))

    def starts_by_size(self, blocks: Blocks) -> list[list[int]]:
        """First positions of the blocks of every distinct size."""
        starts = self.starts % blocks.costs.shape[1]
        return [starts[self.sizes == r].tolist() for r in range(len(blocks.sizes))]


def packing_of_path(blocks: Blocks, path: Path, clock: Clock) -> Packing | None:
    """Keep the cheapest blocks of the path, as many of each size as there are jobs, and insert the others.

    The largest are inserted first. None if the time is over before the last one.
    """
    order = np.lexsort((blocks.costs[path.sizes, path.starts], path.sizes))
    sizes, starts = path.sizes[order], path.starts[order]
    rank = np.arange(len(sizes)) - np.searchsorted(sizes, sizes)
    kept = rank < blocks.counts[sizes]
    return insert_missing(blocks, sizes[kept], starts[kept], clock)


def insert_missing(blocks: Blocks, sizes: IntArray, starts: IntArray, clock: Clock) -> Packing | None:
    """Complete some blocks of a packing, given in any order, by the jobs that are missing; None if time is over."""
    n_jobs, n_kept = int(blocks.counts.sum()), len(sizes)
    order = np.argsort(starts)
    all_sizes, all_starts = np.zeros(n_jobs, dtype=np.int64), np.zeros(n_jobs, dtype=np.int64)
    all_sizes[:n_kept], all_starts[:n_kept] = sizes[order], starts[order]
    left = blocks.counts - np.bincount(sizes, minlength=len(blocks.sizes))
    missing = np.repeat(np.arange(len(left)), left)[::-1].copy()
    spare = np.zeros_like(all_sizes)
    per_slice = max(1, SLICE // blocks.costs.shape[1])
    for first in range(0, len(missing), per_slice):
        if clock.expired():
            return None
        now = missing[first : first + per_slice]
        insert_blocks(blocks.costs, blocks.sizes, all_sizes, all_starts, n_kept + first, now, spare)
    return Packing.of(blocks, all_sizes, all_starts)


def is_packing(blocks: Blocks, sizes: IntArray, starts: IntArray) -> bool:
    """Whether a sequence of blocks has every job once and no position twice."""
    ends = starts + blocks.sizes[sizes]
    following = np.append(starts[1:], starts[0] + blocks.costs.shape[1])
    counts: IntArray = np.bincount(sizes, minlength=len(blocks.sizes))
    return bool((ends <= following).all() and (counts == blocks.counts).all())


def imbalance(blocks: Blocks, path: Path) -> float:
    """Nodes of the blocks that the path has too many or too few of."""
    wrong: FloatArray = np.abs(blocks.counts - path.used)
    return float(blocks.sizes @ wrong)
