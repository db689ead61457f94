"""Packings: made from paths by inserting blocks, and improved by removing stretches and packing them again.

A packing is a sequence of blocks around the circle: the index of the size and the first position of each. Positions
are *unrolled*: they increase along the sequence, from a value in ``0 .. m - 1`` by less than m in all, and are meant
modulo m.

A move takes a few *stretches* of consecutive blocks with the gaps around them. Their positions, one stretch after the
other, form a line on which the same blocks are placed again at the least cost; no block may lie across two stretches.
The least cost of placing a multiset s of blocks, with ``n(s)`` nodes, so that d idle positions lie before its end is

    f(s, d) = min( f(s, d - 1),  min over r in s of  f(s - {r}, d) + W_r(n(s) - n_r + d) ),

where d is at most the number of idle positions of the line. So a line with few idle positions takes little work.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.formulations.topology.lagrangian.relaxation import Path
from allocopt.kernels.arrays import FloatMatrix, put, record_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Clock

SLICE = 2_000_000  # positions times blocks inserted between two looks at the clock: a few milliseconds
MOST_STRETCHES = 4
# Probability that a stretch begins near the block of largest excess among 1 + RIVALS drawn ones.
GUIDED_CHANCE, RIVALS = 0.7, 3
EQUAL = 1e-12  # relative saving that counts as rounding


@inlined
def _put_in(block_sizes: IntArray, block_starts: IntArray, n_blocks: int, place: int, r: int, start: int) -> None:
    for i in range(n_blocks, place, -1):
        block_sizes[i], block_starts[i] = block_sizes[i - 1], block_starts[i - 1]
    block_sizes[place], block_starts[place] = r, start


@inlined
def _gap_end(block_starts: IntArray, n_blocks: int, place: int, m: int) -> int:
    """Return the position at which the gap before block ``place`` ends; after the last block, that of the first one."""
    end: int = block_starts[place] if place < n_blocks else block_starts[0] + m
    return end


@inlined
def _turn(block_sizes: IntArray, block_starts: IntArray, n_blocks: int, first: int, m: int, spare: IntArray) -> None:
    """Rotate the sequence so that it begins at block ``first``."""
    put(block_sizes[:n_blocks], spare[:n_blocks])
    for i in range(n_blocks):
        block_sizes[i] = spare[(i + first) % n_blocks]
    put(block_starts[:n_blocks], spare[:n_blocks])
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
    # Find the place where the fewest blocks have to move to make a gap.
    best, best_place = n_blocks + 1, 0
    last, room = 0, 0
    for place in range(n_blocks):
        # Two pointers: gaps `place + 1 .. last`, around the circle, are in `room`; gap i lies after block i - 1.
        while room < sizes[r]:
            block = last % n_blocks
            room += _gap_end(block_starts, n_blocks, block + 1, m) - block_starts[block] - sizes[block_sizes[block]]
            last += 1
        if last - place < best:
            best, best_place = last - place, place
        room -= _gap_end(block_starts, n_blocks, place + 1, m) - block_starts[place] - sizes[block_sizes[place]]
    _turn(block_sizes, block_starts, n_blocks, best_place, m, spare)
    _put_in(block_sizes, block_starts, n_blocks, 1, r, block_starts[0] + sizes[block_sizes[0]])
    i = 2
    while i <= n_blocks and block_starts[i] < block_starts[i - 1] + sizes[block_sizes[i - 1]]:
        block_starts[i] = block_starts[i - 1] + sizes[block_sizes[i - 1]]
        i += 1


@kernel(int64(float64[:, ::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1]))
def _insert_blocks(
    costs: FloatArray,
    sizes: IntArray,
    block_sizes: IntArray,  # the packing, written in place, with room for all blocks
    block_starts: IntArray,
    n_blocks: int,
    missing: IntArray,  # index of the size of each block to insert, in order; the circle must have room for all
    spare: IntArray,  # working space, one number per block
) -> int:
    """Insert blocks, each into the gap where it costs least; return how many of them made other blocks move."""
    m = costs.shape[1]
    pushed = 0
    for index in range(missing.size):
        r = missing[index]
        least, best_place, best_start = np.inf, -1, 0
        for place in range(1, n_blocks + 1):
            first = block_starts[place - 1] + sizes[block_sizes[place - 1]]
            last = _gap_end(block_starts, n_blocks, place, m) - sizes[r]
            for start in range(first, last + 1):
                cost = costs[r, start % m]
                if cost < least:
                    least, best_place, best_start = cost, place, start
        # If no gap is large enough, several together are: move the blocks between them to join these gaps.
        if best_place >= 0:
            _put_in(block_sizes, block_starts, n_blocks, best_place, r, best_start)
        else:
            _push_in(sizes, block_sizes, block_starts, n_blocks, r, m, spare)
            pushed += 1
        n_blocks += 1
    return pushed


@kernel(float64(float64[:, ::1], int64[::1], int64[::1]))
def _packing_cost(costs: FloatArray, block_sizes: IntArray, block_starts: IntArray) -> float:
    """Return the total cost of a packing."""
    total = 0.0
    for i in range(block_sizes.size):
        total += costs[block_sizes[i], block_starts[i] % costs.shape[1]]
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Blocks around the circle."""

    sizes: IntArray  # index of the size of each block, shape (J,)
    starts: IntArray  # first positions, unrolled: increasing by less than m in all
    cost: float

    @classmethod
    def of(cls, blocks: Blocks, sizes: IntArray, starts: IntArray) -> "Packing":
        """Return the packing of a sequence of blocks."""
        return cls(sizes, starts, _packing_cost(blocks.costs, sizes, starts))

    @classmethod
    def of_path(cls, blocks: Blocks, path: Path, clock: Clock) -> "Packing | None":
        """Return the packing of a path; surplus blocks of a size, the dearest, are left out, and missing ones inserted.

        Return None if the time is over before that.
        """
        order = np.lexsort((blocks.costs[path.sizes, path.starts], path.sizes))
        sizes, starts = path.sizes[order], path.starts[order]
        rank = np.arange(len(sizes)) - np.searchsorted(sizes, sizes)
        kept = rank < blocks.counts[sizes]
        return cls.completed(blocks, sizes[kept], starts[kept], clock)

    @classmethod
    def completed(cls, blocks: Blocks, sizes: IntArray, starts: IntArray, clock: Clock) -> "Packing | None":
        """Return the packing of some blocks, in any order, with the missing ones inserted; None if the time is over.

        The largest missing blocks are inserted first.
        """
        n_jobs, n_kept = int(blocks.counts.sum()), len(sizes)
        order = np.argsort(starts)
        all_sizes, all_starts, spare = np.zeros((3, n_jobs), dtype=np.int64)
        all_sizes[:n_kept], all_starts[:n_kept] = sizes[order], starts[order]
        left = blocks.counts - np.bincount(sizes, minlength=len(blocks.sizes))
        missing = np.repeat(np.arange(len(left)), left)[::-1].copy()
        per_slice = max(1, SLICE // blocks.costs.shape[1])
        for first in range(0, len(missing), per_slice):
            if clock.expired():
                return None
            now = missing[first : first + per_slice]
            _insert_blocks(blocks.costs, blocks.sizes, all_sizes, all_starts, n_kept + first, now, spare)
        return cls.of(blocks, all_sizes, all_starts)


class Stretches(NamedTuple):
    """The blocks of a window, and the working space of moves; its size limits the moves."""

    costs: FloatMatrix  # costs of the blocks, shape (R, m)
    sizes: IntArray
    labels: FloatArray  # shortest distances from position 0 at `prices`
    prices: FloatArray  # prices of the sizes; with zeros, stretches are drawn uniformly
    first: IntArray  # removed stretches have blocks first .. last - 1, shape (MOST_STRETCHES,)
    last: IntArray
    begin: IntArray  # first position of each stretch
    length: IntArray  # number of positions of each stretch
    distinct: IntArray  # index in `sizes` of each distinct size that is removed
    copies: IntArray  # number of removed blocks of each of these sizes
    stride: IntArray  # strides of the multisets of removed blocks
    line_costs: FloatMatrix  # cost of each distinct size at each position of the line
    used: IntArray  # nodes of each multiset
    best: FloatArray  # table f, row by row
    block_sizes: IntArray  # the packing
    block_starts: IntArray
    new_sizes: IntArray  # the packing after the move
    new_starts: IntArray

    @classmethod
    def of(cls, blocks: Blocks, most_blocks: int, most_entries: int) -> "Stretches":
        """Return working space for moves of at most ``most_blocks`` blocks and ``most_entries`` table entries."""
        m, n_blocks = blocks.costs.shape[1], int(blocks.counts.sum())
        lengths = (*(MOST_STRETCHES,) * 4, *(most_blocks,) * 3, min(2**most_blocks, most_entries))
        first, last, begin, length, distinct, copies, stride, used = (
            np.zeros(size, dtype=np.int64) for size in lengths
        )
        packings = np.zeros((4, n_blocks), dtype=np.int64)
        line_costs = np.zeros((most_blocks, min(m, most_blocks * int(blocks.sizes[-1]) + most_entries)))
        labels, prices, best = np.zeros(m + 1), np.zeros(len(blocks.sizes)), np.zeros(most_entries)
        return cls(
            *(blocks.costs, blocks.sizes, labels, prices, first, last, begin, length, distinct, copies, stride),
            *(line_costs, used, best, *packings),
        )


@inlined
def _measure(work: Stretches, n_stretches: int) -> tuple[int, int, int]:
    """Set the extent of the stretches; return the numbers of distinct sizes, multisets and idle positions in them."""
    block_sizes, block_starts, m = work.block_sizes, work.block_starts, work.costs.shape[1]
    n_sizes, slack = 0, 0
    for q in range(n_stretches):
        before = work.first[q] - 1
        work.begin[q] = block_starts[before] + work.sizes[block_sizes[before]]
        work.length[q] = _gap_end(block_starts, block_sizes.size, work.last[q], m) - work.begin[q]
        slack += work.length[q]
        for i in range(work.first[q], work.last[q]):
            j = 0
            while j < n_sizes and work.distinct[j] != block_sizes[i]:
                j += 1
            if j == n_sizes:
                work.distinct[j] = block_sizes[i]
                work.copies[j] = 0
                n_sizes += 1
            work.copies[j] += 1
    n_states = 1
    for j in range(n_sizes):
        work.stride[j] = n_states
        n_states *= work.copies[j] + 1
        slack -= work.copies[j] * work.sizes[work.distinct[j]]
    return n_sizes, n_states, slack


@inlined
def _lay_line(work: Stretches, n_stretches: int, n_sizes: int) -> None:
    m = work.costs.shape[1]
    for j in range(n_sizes):
        r = work.distinct[j]
        base = 0
        for q in range(n_stretches):
            fitting = max(0, work.length[q] - work.sizes[r] + 1)
            position = work.begin[q] % m
            for x in range(fitting):
                work.line_costs[j, base + x] = work.costs[r, position]
                position += 1
                if position == m:
                    position = 0
            for x in range(fitting, work.length[q]):
                work.line_costs[j, base + x] = np.inf
            base += work.length[q]


@inlined
def _fill_table(work: Stretches, n_sizes: int, n_states: int, slack: int) -> None:
    width = slack + 1
    work.used[0] = 0
    for d in range(width):
        work.best[d] = 0.0
    for state in range(1, n_states):
        row = work.best[state * width : (state + 1) * width]
        filled = False
        for j in range(n_sizes):
            if state // work.stride[j] % (work.copies[j] + 1) == 0:
                continue
            other = state - work.stride[j]
            start = work.used[other]
            below = work.best[other * width : (other + 1) * width]
            along = work.line_costs[j, start : start + width]
            # The first size is written and the others are compared, so the table need not be cleared.
            if not filled:
                work.used[state] = start + work.sizes[work.distinct[j]]
                filled = True
                for d in range(width):
                    row[d] = below[d] + along[d]
            else:
                for d in range(width):
                    row[d] = min(row[d], below[d] + along[d])
        for d in range(1, width):
            row[d] = min(row[d], row[d - 1])


@inlined
def _copy_blocks(work: Stretches, first: int, last: int, end: int) -> int:
    for i in range(last - 1, first - 1, -1):
        end -= 1
        work.new_sizes[end], work.new_starts[end] = work.block_sizes[i], work.block_starts[i]
    return end


@inlined
def _place_anew(work: Stretches, n_stretches: int, n_sizes: int, slack: int) -> None:
    # Trace the best placement back, last block first, into the arrays of the new packing.
    n_blocks, width = work.block_sizes.size, slack + 1
    state, d, base = 0, slack, 0
    for j in range(n_sizes):
        state += work.copies[j] * work.stride[j]
    for q in range(n_stretches):
        base += work.length[q]
    end = _copy_blocks(work, work.last[n_stretches - 1], n_blocks, n_blocks)
    for q in range(n_stretches - 1, -1, -1):
        base -= work.length[q]
        while state > 0:
            while d > 0 and work.best[state * width + d - 1] <= work.best[state * width + d]:
                d -= 1
            # Now the best placement of the multiset ends with a block; its size is the one of least total cost.
            least, chosen = np.inf, 0
            for j in range(n_sizes):
                if state // work.stride[j] % (work.copies[j] + 1) > 0:
                    other = state - work.stride[j]
                    cost = work.best[other * width + d] + work.line_costs[j, work.used[other] + d]
                    if cost < least:
                        least, chosen = cost, j
            position = work.used[state - work.stride[chosen]] + d
            if position < base:
                break
            end -= 1
            work.new_sizes[end] = work.distinct[chosen]
            work.new_starts[end] = work.begin[q] + position - base
            state -= work.stride[chosen]
        before = work.last[q - 1] if q > 0 else 0
        end = _copy_blocks(work, before, work.first[q], end)
    put(work.new_sizes, work.block_sizes)
    put(work.new_starts, work.block_starts)


@inlined
def _excess(work: Stretches, i: int) -> float:
    """Return how much longer block i and the gap after it are than the shortest path; 0 for a block across the cut."""
    m = work.costs.shape[1]
    r, start = work.block_sizes[i], work.block_starts[i] % m
    if start + work.sizes[r] > m:
        return 0.0
    following = _gap_end(work.block_starts, work.block_starts.size, i + 1, m) - work.block_starts[i]
    longer: float = work.labels[start] + work.costs[r, start] - work.prices[r] - work.labels[min(m, start + following)]
    return longer


@inlined
def _draw_stretches(work: Stretches, n_taken: int, rng: np.random.Generator) -> int:
    """Draw separate stretches of about ``n_taken`` blocks in all, without block 0; return their number."""
    n_blocks, wanted = work.block_sizes.size, 1 + int(rng.random() * min(MOST_STRETCHES, n_taken))
    length = (n_taken + wanted - 1) // wanted
    for q in range(wanted):
        # A stretch begins at a random block, or a little before the one of largest excess among a few, not at block 0.
        start = 1 + int(rng.random() * (n_blocks - 1))
        if rng.random() <= GUIDED_CHANCE:
            most = _excess(work, start)
            for _ in range(RIVALS):
                rival = 1 + int(rng.random() * (n_blocks - 1))
                value = _excess(work, rival)
                if value > most:
                    most, start = value, rival
            start = max(1, start - int(rng.random() * length))
        place = q
        while place > 0 and work.first[place - 1] > start:
            work.first[place] = work.first[place - 1]
            place -= 1
        work.first[place] = start
    drawn = 0
    for q in range(wanted):
        start = work.first[q]
        if drawn > 0 and start <= work.last[drawn - 1]:
            continue
        work.first[drawn], work.last[drawn] = start, min(n_blocks, start + length)
        drawn += 1
    return drawn


@kernel(float64(record_type(Stretches), int64, int64, types.npy_rng), allocates=True)
def improve_packing(work: Stretches, most_taken: int, n_moves: int, rng: np.random.Generator) -> float:
    """Make ``n_moves`` moves of two to ``most_taken`` blocks on the packing; return the total saving."""
    m, n_blocks = work.costs.shape[1], work.block_sizes.size
    saved_in_all = 0.0
    for step in range(n_moves):
        # No stretch includes block 0, so rotate the sequence now and then.
        if step % (1 + n_blocks // 4) == 0:
            _turn(work.block_sizes, work.block_starts, n_blocks, int(rng.random() * n_blocks), m, work.new_sizes)
        n_stretches = _draw_stretches(work, 2 + int(rng.random() * (most_taken - 1)), rng)
        while n_stretches > 0:
            n_sizes, n_states, slack = _measure(work, n_stretches)
            if n_states <= work.used.size and n_states * (slack + 1) <= work.best.size:
                break
            # The move is too large for the tables, so leave out a block.
            work.last[n_stretches - 1] -= 1
            if work.last[n_stretches - 1] == work.first[n_stretches - 1]:
                n_stretches -= 1
        if n_stretches == 0:
            continue
        _lay_line(work, n_stretches, n_sizes)
        _fill_table(work, n_sizes, n_states, slack)
        before = 0.0
        for q in range(n_stretches):
            for i in range(work.first[q], work.last[q]):
                before += work.costs[work.block_sizes[i], work.block_starts[i] % m]
        saved = before - work.best[n_states * (slack + 1) - 1]
        if saved > EQUAL * before:
            _place_anew(work, n_stretches, n_sizes, slack)
            saved_in_all += saved
    return saved_in_all


PACKING_KERNELS = (_insert_blocks, _packing_cost, improve_packing)  # compiled functions that Python calls
