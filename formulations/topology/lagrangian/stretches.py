"""Stretches of a packing, taken out and packed anew at the least cost.

A move takes a few stretches of consecutive blocks with the gaps around them. Their positions, one stretch after the
other, are a line on which the same blocks are placed anew; no block may lie across two stretches. For a multiset s of
blocks with ``n(s)`` nodes and d idle positions before its end,

    f(s, d) = min( f(s, d - 1),  min over r in s of  f(s - {r}, d) + W_r(n(s) - n_r + d) ),

d at most the idle positions of the line, so that a full line costs little.
"""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel
from allocopt.problems.topology.tables import Blocks
from formulations.topology.lagrangian.packing import gap_end, turn

MOST_STRETCHES = 4

GUIDED_CHANCE, RIVALS = 0.7, 3
"""How often a stretch is drawn by the excess of its blocks, and among how many others."""

EQUAL = 1e-12
"""Share of a cost that rounding may save."""


class Stretches(NamedTuple):
    """The blocks of a window, and working space of moves, whose sizes are their limits.

    Parameters
    ----------
    costs, sizes
        Costs of the blocks, shape ``(R, m)``, and the distinct sizes.
    labels, prices
        Shortest distances from position 0, and the prices of the sizes for which they are; zeros draw evenly.
    first, last
        Blocks of the stretches taken out, ``first .. last - 1``, shape ``(MOST_STRETCHES,)``.
    begin, length
        First position and number of positions of each stretch.
    distinct, copies, stride
        Index in ``sizes``, number of blocks and stride of each distinct size taken out.
    line_costs
        Cost of each distinct size at each position of the line.
    used, best
        Nodes of each multiset, and table f, row by row.
    new_sizes, new_starts
        A packing that is being made.
    """

    costs: FloatArray
    sizes: IntArray
    labels: FloatArray
    prices: FloatArray
    first: IntArray
    last: IntArray
    begin: IntArray
    length: IntArray
    distinct: IntArray
    copies: IntArray
    stride: IntArray
    line_costs: FloatArray
    used: IntArray
    best: FloatArray
    new_sizes: IntArray
    new_starts: IntArray


_INTEGERS, _FLOATS, _TABLE = int64[::1], float64[::1], float64[:, ::1]
STRETCHES = types.NamedTuple(
    (*(_TABLE, _INTEGERS, _FLOATS, _FLOATS), *(_INTEGERS,) * 7, *(_TABLE, _INTEGERS, _FLOATS, _INTEGERS, _INTEGERS)),
    Stretches,
)


def stretches(blocks: Blocks, most_blocks: int, most_entries: int) -> Stretches:
    """Allocate the working space for moves of at most ``most_blocks`` blocks and ``most_entries`` table entries."""
    m, n_blocks = blocks.costs.shape[1], int(blocks.counts.sum())

    def integers(length: int) -> IntArray:
        return np.zeros(length, dtype=np.int64)

    return Stretches(
        costs=blocks.costs,
        sizes=blocks.sizes,
        labels=np.zeros(m + 1),
        prices=np.zeros(len(blocks.sizes)),
        first=integers(MOST_STRETCHES),
        last=integers(MOST_STRETCHES),
        begin=integers(MOST_STRETCHES),
        length=integers(MOST_STRETCHES),
        distinct=integers(most_blocks),
        copies=integers(most_blocks),
        stride=integers(most_blocks),
        line_costs=np.zeros((most_blocks, min(m, most_blocks * int(blocks.sizes[-1]) + most_entries))),
        used=integers(min(2**most_blocks, most_entries)),
        best=np.zeros(most_entries),
        new_sizes=integers(n_blocks),
        new_starts=integers(n_blocks),
    )


@inlined
def _measure(work: Stretches, block_sizes: IntArray, block_starts: IntArray, n_stretches: int) -> tuple[int, int, int]:
    """Find the extent of the stretches; return the numbers of distinct sizes, multisets and idle positions in them."""
    n_blocks, m = block_sizes.size, work.costs.shape[1]
    n_sizes, slack = 0, 0
    for q in range(n_stretches):
        before, after = work.first[q] - 1, work.last[q]
        work.begin[q] = block_starts[before] + work.sizes[block_sizes[before]]
        end = block_starts[after] if after < n_blocks else block_starts[0] + m
        work.length[q] = end - work.begin[q]
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
def _last_block(work: Stretches, n_sizes: int, width: int, state: int, d: int) -> int:
    """Return which of the distinct sizes ends the best placement of a multiset, if a block ends at its end."""
    least, chosen = np.inf, 0
    for j in range(n_sizes):
        if state // work.stride[j] % (work.copies[j] + 1) > 0:
            other = state - work.stride[j]
            cost = work.best[other * width + d] + work.line_costs[j, work.used[other] + d]
            if cost < least:
                least, chosen = cost, j
    return chosen


@inlined
def _copy_blocks(
    work: Stretches, block_sizes: IntArray, block_starts: IntArray, first: int, last: int, end: int
) -> int:
    for i in range(last - 1, first - 1, -1):
        end -= 1
        work.new_sizes[end], work.new_starts[end] = block_sizes[i], block_starts[i]
    return end


@inlined
def _place_anew(
    work: Stretches, block_sizes: IntArray, block_starts: IntArray, n_stretches: int, n_sizes: int, slack: int
) -> None:
    """Trace the best placement back, last block first, and write the new packing, which is made aside."""
    n_blocks, width = block_sizes.size, slack + 1
    state, d, base = 0, slack, 0
    for j in range(n_sizes):
        state += work.copies[j] * work.stride[j]
    for q in range(n_stretches):
        base += work.length[q]
    end = _copy_blocks(work, block_sizes, block_starts, work.last[n_stretches - 1], n_blocks, n_blocks)
    for q in range(n_stretches - 1, -1, -1):
        base -= work.length[q]
        while state > 0:
            while d > 0 and work.best[state * width + d - 1] <= work.best[state * width + d]:
                d -= 1
            j = _last_block(work, n_sizes, width, state, d)
            position = work.used[state - work.stride[j]] + d
            if position < base:
                break
            end -= 1
            work.new_sizes[end] = work.distinct[j]
            work.new_starts[end] = work.begin[q] + position - base
            state -= work.stride[j]
        before = work.last[q - 1] if q > 0 else 0
        end = _copy_blocks(work, block_sizes, block_starts, before, work.first[q], end)
    for i in range(n_blocks):
        block_sizes[i], block_starts[i] = work.new_sizes[i], work.new_starts[i]


@inlined
def excess(work: Stretches, block_sizes: IntArray, block_starts: IntArray, i: int) -> float:
    """By how much block i and the gap after it are longer than the shortest path; 0 for a block across the cut."""
    m = work.costs.shape[1]
    r, start = block_sizes[i], block_starts[i] % m
    if start + work.sizes[r] > m:
        return 0.0
    following = gap_end(block_starts, block_sizes.size, i + 1, m) - block_starts[i]
    longer: float = work.labels[start] + work.costs[r, start] - work.prices[r] - work.labels[min(m, start + following)]
    return longer


@inlined
def _draw_start(
    work: Stretches, block_sizes: IntArray, block_starts: IntArray, length: int, rng: np.random.Generator
) -> int:
    """Draw where a stretch begins: any block but 0, or a little before the one with most excess among a few."""
    n_blocks = block_sizes.size
    start = 1 + int(rng.random() * (n_blocks - 1))
    if rng.random() > GUIDED_CHANCE:
        return start
    most = excess(work, block_sizes, block_starts, start)
    for _ in range(RIVALS):
        rival = 1 + int(rng.random() * (n_blocks - 1))
        value = excess(work, block_sizes, block_starts, rival)
        if value > most:
            most, start = value, rival
    return max(1, start - int(rng.random() * length))


@inlined
def _draw_stretches(
    work: Stretches, block_sizes: IntArray, block_starts: IntArray, n_taken: int, rng: np.random.Generator
) -> int:
    """Draw stretches of about ``n_taken`` blocks together, apart and without block 0; return how many they are."""
    wanted = 1 + int(rng.random() * min(MOST_STRETCHES, n_taken))
    length = (n_taken + wanted - 1) // wanted
    for q in range(wanted):
        start = _draw_start(work, block_sizes, block_starts, length, rng)
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
        work.first[drawn] = start
        work.last[drawn] = min(block_sizes.size, start + length)
        drawn += 1
    return drawn


@inlined
def _move(
    work: Stretches, block_sizes: IntArray, block_starts: IntArray, n_taken: int, rng: np.random.Generator
) -> float:
    """Draw stretches and pack them anew; return what that saves, 0 where they lie best already."""
    m = work.costs.shape[1]
    n_stretches = _draw_stretches(work, block_sizes, block_starts, n_taken, rng)
    while n_stretches > 0:
        n_sizes, n_states, slack = _measure(work, block_sizes, block_starts, n_stretches)
        if n_states <= work.used.size and n_states * (slack + 1) <= work.best.size:
            break
        # Too large for the tables: a block is left out.
        work.last[n_stretches - 1] -= 1
        if work.last[n_stretches - 1] == work.first[n_stretches - 1]:
            n_stretches -= 1
    if n_stretches == 0:
        return 0.0
    _lay_line(work, n_stretches, n_sizes)
    _fill_table(work, n_sizes, n_states, slack)
    before = 0.0
    for q in range(n_stretches):
        for i in range(work.first[q], work.last[q]):
            before += work.costs[block_sizes[i], block_starts[i] % m]
    saved: float = before - work.best[n_states * (slack + 1) - 1]
    if saved <= EQUAL * before:
        return 0.0
    _place_anew(work, block_sizes, block_starts, n_stretches, n_sizes, slack)
    return saved


@kernel(float64(STRETCHES, int64[::1], int64[::1], int64, int64, types.npy_rng), allocates=True)
def improve_packing(
    work: Stretches,
    block_sizes: IntArray,
    block_starts: IntArray,
    most_taken: int,
    n_moves: int,
    rng: np.random.Generator,
) -> float:
    """Make moves on a packing of two blocks or more, and return what they saved together.

    Parameters
    ----------
    work
        The blocks of the window, and working space.
    block_sizes, block_starts
        The packing, changed in place.
    most_taken
        Blocks taken out by one move, at most, and at least 2.
    n_moves
        Number of moves.
    rng
        Where all choices come from.
    """
    m, n_blocks = work.costs.shape[1], block_sizes.size
    saved = 0.0
    for step in range(n_moves):
        if step % (1 + n_blocks // 4) == 0:
            turn(block_sizes, block_starts, n_blocks, int(rng.random() * n_blocks), m, work.new_sizes)
        n_taken = 2 + int(rng.random() * (most_taken - 1))
        saved += _move(work, block_sizes, block_starts, n_taken, rng)
    return saved
