"""From a path to a packing: blocks put into the gaps between those that are there, or pushed in between.

A packing is a sequence of blocks around the circle: the index of the size and the first position of each. Positions
are *unrolled*: they rise along the sequence, from somewhere in ``0 .. m - 1`` by less than m, and stand for what they
are modulo m.
"""

from dataclasses import dataclass

import numpy as np
from numba import float64, int64

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Clock
from formulations.topology.lagrangian.relaxation import Path

SLICE = 2_000_000
"""Positions times blocks inserted between two looks at the clock: a few milliseconds."""


@inlined
def _put_in(block_sizes: IntArray, block_starts: IntArray, n_blocks: int, place: int, r: int, start: int) -> None:
    for i in range(n_blocks, place, -1):
        block_sizes[i], block_starts[i] = block_sizes[i - 1], block_starts[i - 1]
    block_sizes[place], block_starts[place] = r, start


@inlined
def gap_end(block_starts: IntArray, n_blocks: int, place: int, m: int) -> int:
    """Position at which the gap before block ``place`` of the sequence ends; for the last gap, the first block."""
    end: int = block_starts[place] if place < n_blocks else block_starts[0] + m
    return end


@inlined
def _narrowest_push(
    sizes: IntArray, block_sizes: IntArray, block_starts: IntArray, n_blocks: int, size: int, m: int
) -> int:
    """Return the place from which on the fewest blocks must move to make a gap of ``size``.

    The gaps from a place on are added up, around the circle, until they hold the block; two pointers.
    """
    best, best_place = n_blocks + 1, 0
    last, room = 0, 0
    for place in range(n_blocks):
        # Gaps `place + 1 .. last` are in `room`: gap i lies after block i - 1.
        while room < size:
            block = last % n_blocks
            room += gap_end(block_starts, n_blocks, block + 1, m) - block_starts[block] - sizes[block_sizes[block]]
            last += 1
        if last - place < best:
            best, best_place = last - place, place
        room -= gap_end(block_starts, n_blocks, place + 1, m) - block_starts[place] - sizes[block_sizes[place]]
    return best_place


@inlined
def turn(block_sizes: IntArray, block_starts: IntArray, n_blocks: int, first: int, m: int, spare: IntArray) -> None:
    """Let the sequence begin at block ``first``."""
    for i in range(n_blocks):
        spare[i] = block_sizes[i]
    for i in range(n_blocks):
        block_sizes[i] = spare[(i + first) % n_blocks]
    for i in range(n_blocks):
        spare[i] = block_starts[i]
    base = spare[first] // m * m
    for i in range(n_blocks):
        wrapped = i + first >= n_blocks
        block_starts[i] = spare[(i + first) % n_blocks] - base + (m if wrapped else 0)


@inlined
def _push_in(
    sizes: IntArray, block_sizes: IntArray, block_starts: IntArray, n_blocks: int, r: int, m: int, spare: IntArray
) -> None:
    if n_blocks == 0:
        block_sizes[0], block_starts[0] = r, 0
        return
    place = _narrowest_push(sizes, block_sizes, block_starts, n_blocks, sizes[r], m)
    turn(block_sizes, block_starts, n_blocks, place, m, spare)
    _put_in(block_sizes, block_starts, n_blocks, 1, r, block_starts[0] + sizes[block_sizes[0]])
    i = 2
    while i <= n_blocks and block_starts[i] < block_starts[i - 1] + sizes[block_sizes[i - 1]]:
        block_starts[i] = block_starts[i - 1] + sizes[block_sizes[i - 1]]
        i += 1


@kernel(int64(float64[:, ::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1]))
def insert_blocks(
    costs: FloatArray,
    sizes: IntArray,
    block_sizes: IntArray,
    block_starts: IntArray,
    n_blocks: int,
    missing: IntArray,
    spare: IntArray,
) -> int:
    """Insert blocks one by one where they cost least among the gaps that hold them; where none does, push.

    Parameters
    ----------
    costs, sizes
        Costs of the blocks, shape ``(R, m)``, and the distinct sizes.
    block_sizes, block_starts
        The packing, written in place, with room for all blocks.
    n_blocks
        Number of blocks in it.
    missing
        Index of the size of each block to insert, in order; all of them together have room on the circle.
    spare
        Working space, one number per block.

    Returns
    -------
    int
        Number of blocks that were pushed in.
    """
    m = costs.shape[1]
    pushed = 0
    for index in range(missing.size):
        r = missing[index]
        least, best_place, best_start = np.inf, -1, 0
        for place in range(1, n_blocks + 1):
            first = block_starts[place - 1] + sizes[block_sizes[place - 1]]
            last = gap_end(block_starts, n_blocks, place, m) - sizes[r]
            for start in range(first, last + 1):
                cost = costs[r, start % m]
                if cost < least:
                    least, best_place, best_start = cost, place, start
        if best_place >= 0:
            _put_in(block_sizes, block_starts, n_blocks, best_place, r, best_start)
        else:
            _push_in(sizes, block_sizes, block_starts, n_blocks, r, m, spare)
            pushed += 1
        n_blocks += 1
    return pushed


@kernel(float64(float64[:, ::1], int64[::1], int64[::1]))
def packing_cost(costs: FloatArray, block_sizes: IntArray, block_starts: IntArray) -> float:
    """Total cost of a packing."""
    total = 0.0
    for i in range(block_sizes.size):
        total += costs[block_sizes[i], block_starts[i] % costs.shape[1]]
    return total


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


def imbalance(blocks: Blocks, path: Path) -> float:
    """Nodes of the blocks that the path has too many or too few of."""
    wrong: FloatArray = np.abs(blocks.counts - path.used)
    return float(blocks.sizes @ wrong)
