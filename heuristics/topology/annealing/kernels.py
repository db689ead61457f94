"""The walks of simulated annealing as kernels: by the move of the NSA paper, and by swaps on counts."""

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int32, int64, types, void
from numpy.typing import NDArray

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.kernels.arrays import put
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.random import lehmer_uniform
from allocopt.kernels.tree import ENCODING

DRAWS = 6
"""A move that crosses is drawn again, up to this many times in all: two moves of three cross."""


class Walk(NamedTuple):
    """Where the walk by the paper's move is."""

    working: IntArray  # job (or -1) that owns each idle position in the state the next move starts from, shape (m,)
    accepted: IntArray  # the same in the state accepted last
    best: IntArray  # the same in the best state so far
    working_costs: FloatArray  # hop cost of each job, shape (J,)
    accepted_costs: FloatArray
    totals: FloatArray  # cost of the accepted and of the best state, shape (2,)


class Rules(NamedTuple):
    """How the walk by the paper's move goes on."""

    hottest: float  # temperature at the first step, in units of the objective
    coldest: float  # the same at the last step
    steps: int  # steps from the one to the other
    most_removed: int  # largest number of jobs removed in a move
    non_crossing: bool  # whether a move must keep jobs and leftover a non-crossing partition of the circle
    # Whether the next move starts from the accepted state after a rejection; the published walk goes on from the
    # rejected one.
    restores: bool


WALK = types.NamedTuple((int64[::1],) * 3 + (float64[::1],) * 3, Walk)
RULES = types.NamedTuple((float64, float64, int64, int64, boolean, boolean), Rules)


@helper(allocates=True)
def cost_at(window: Encoding, positions: IntArray, counts: IntArray) -> float:
    """Hop cost of a job at some positions; ``counts`` is working space, zero before and after."""
    n = positions.size
    hops = window.top * n * n - window.bottom * n
    for level in range(window.groups.shape[0]):
        squares = 0
        for i in range(n):
            group = window.groups[level, positions[i]]
            squares += 2 * counts[group] + 1
            counts[group] += 1
        for i in range(n):
            counts[window.groups[level, positions[i]]] = 0
        hops -= window.weights[level] * squares
    return window.scale * hops / n


@helper(allocates=True)
def is_non_crossing(owners: IntArray, sizes: IntArray) -> bool:
    """Whether the jobs and the leftover (owner -1) are a non-crossing partition of the circle.

    A scan with a stack of the blocks that are open: a position may only belong to the block on top, or open a new one.
    """
    m, n_jobs = owners.size, sizes.size
    left = np.empty(n_jobs + 1, dtype=np.int64)
    put(sizes, left[:n_jobs])
    left[n_jobs] = m - sizes.sum()
    is_open = np.zeros(n_jobs + 1, dtype=np.bool_)
    stack = np.empty(n_jobs + 1, dtype=np.int64)
    depth = 0
    owner_before = -2
    for position in range(m):
        owner = owners[position]
        block = owner if owner >= 0 else n_jobs
        if owner != owner_before:
            owner_before = owner
            while depth > 0 and left[stack[depth - 1]] == 0:
                depth -= 1
            if depth == 0 or stack[depth - 1] != block:
                if is_open[block]:
                    return False
                is_open[block] = True
                stack[depth] = block
                depth += 1
        left[block] -= 1
    return True


@helper(allocates=True)
def draw_below(limit: int, rng: np.random.Generator) -> int:
    """Draw from ``0 .. limit - 1``; several times as fast as ``rng.integers``, and as even to 1 in 2^53."""
    return int(rng.random() * limit)


@helper(allocates=True)
def remove_jobs(
    window: Encoding, walk: Walk, most: int, jobs: IntArray, idle: IntArray, rng: np.random.Generator
) -> tuple[int, int]:
    """Remove 1 .. most random jobs from the working state.

    Their number is returned, and that of the idle positions, which are then listed in ``idle``; the jobs stand at the
    front of ``jobs``, the largest first.
    """
    count = 1 + draw_below(most, rng)
    for i in range(count):
        j = i + draw_below(jobs.size - i, rng)
        jobs[i], jobs[j] = jobs[j], jobs[i]
    for i in range(1, count):
        j = i
        while j > 0 and window.sizes[jobs[j]] > window.sizes[jobs[j - 1]]:
            jobs[j], jobs[j - 1] = jobs[j - 1], jobs[j]
            j -= 1
    n_idle = 0
    for position in range(walk.working.size):
        owner = walk.working[position]
        for i in range(count):
            if owner == jobs[i]:
                owner = -1
        walk.working[position] = owner
        # Written in any case, kept if the position is idle: cheaper than a branch that is hard to foresee.
        idle[n_idle] = position
        n_idle += owner < 0
    return count, n_idle


@helper(allocates=True)
def insert_job(working: IntArray, job: int, first: int, idle: IntArray, n_idle: int, block: IntArray) -> int:
    """Give a job as many idle positions as ``block`` has places, from a first one on around the idle sequence.

    The positions are written to ``block`` and leave the list; the number of those that remain is returned.
    """
    n = block.size
    wrapped = max(0, first + n - n_idle)
    # The head of the list is written once more behind its end, so that a block that wraps around is a slice.
    put(idle[:wrapped], idle[n_idle : n_idle + wrapped])
    for k in range(n):
        block[k] = idle[first + k]
        working[block[k]] = job
    for k in range(wrapped, n_idle - n + wrapped):
        idle[k - wrapped] = idle[k if k < first else k + n]
    return n_idle - n


@helper(allocates=True)
def destroy_and_repair(
    window: Encoding, walk: Walk, most: int, jobs: IntArray, idle: IntArray, blocks: IntArray, rng: np.random.Generator
) -> int:
    """Remove some jobs from the working state and re-insert each at a random first node of the idle sequence.

    Their number is returned, they stand at the front of ``jobs``, and their positions in the rows of ``blocks``.
    """
    count, n_idle = remove_jobs(window, walk, most, jobs, idle, rng)
    for i in range(count):
        block = blocks[i, : window.sizes[jobs[i]]]
        n_idle = insert_job(walk.working, jobs[i], draw_below(n_idle, rng), idle, n_idle, block)
    return count


@helper(allocates=True)
def go_back(walk: Walk) -> None:
    """Let the next move start from the accepted state."""
    put(walk.accepted, walk.working)
    put(walk.accepted_costs, walk.working_costs)


@helper(allocates=True)
def accept_or_not(walk: Walk, rules: Rules, step: int, rng: np.random.Generator) -> None:
    """Accept the working state by Metropolis' rule at the temperature of a step, or reject it."""
    total = walk.working_costs.sum()
    accepts = True
    if total > walk.totals[0]:
        cooling = np.log(rules.coldest / rules.hottest) / rules.steps
        temperature = rules.hottest * np.exp(cooling * step)
        accepts = rng.random() < np.exp((walk.totals[0] - total) / temperature)
    if accepts:
        put(walk.working, walk.accepted)
        put(walk.working_costs, walk.accepted_costs)
        walk.totals[0] = total
        if total < walk.totals[1]:
            walk.totals[1] = total
            put(walk.working, walk.best)
    elif rules.restores:
        go_back(walk)


@kernel(void(ENCODING, WALK, RULES, int64, int64, types.npy_rng), allocates=True)
def anneal(window: Encoding, walk: Walk, rules: Rules, first: int, last: int, rng: np.random.Generator) -> None:
    """Take the steps ``first .. last - 1`` of the walk by the paper's move, which changes in place.

    The temperature falls geometrically, ``T = hottest * exp(-log(hottest / coldest) * t / steps)`` (NSA paper,
    Algorithm 1, with the factor t that line 11 lacks).
    """
    m, n_jobs = walk.working.size, window.sizes.size
    jobs = np.arange(n_jobs)
    most = min(rules.most_removed, n_jobs)
    idle = np.empty(m + window.sizes.max(), dtype=np.int64)
    blocks = np.empty((most, window.sizes.max()), dtype=np.int64)
    counts = np.zeros(m, dtype=np.int64)
    for step in range(first, last):
        for _ in range(DRAWS):
            count = destroy_and_repair(window, walk, most, jobs, idle, blocks, rng)
            accepts = not rules.non_crossing or is_non_crossing(walk.working, window.sizes)
            if accepts:
                break
            go_back(walk)
        if not accepts:
            continue
        for i in range(count):
            walk.working_costs[jobs[i]] = cost_at(window, blocks[i, : window.sizes[jobs[i]]], counts)
        accept_or_not(walk, rules, step, rng)


class Swapping(NamedTuple):
    """Where the walk on counts is; what nobody has belongs to one more owner, whose size is infinite."""

    owners: IntArray  # job of each idle position, or J where it has none, shape (m,)
    counts: NDArray[np.int32]  # nodes of each owner by group, all levels numbered through, shape (J + 1, V)
    groups: IntArray  # group of each idle position at each level, shape (m, levels)
    members: IntArray  # the positions of group u of the lowest level are members[first[u] : first[u + 1]]
    first: IntArray
    weights: FloatArray  # what a squared count saves at each level, in hops, shape (levels,)
    per_node: FloatArray  # one over the size of each job, and 0 for the last row, shape (J + 1,)
    saving: FloatArray  # hops that the present state saves more than the first one, shape (1,)
    random: IntArray  # state of Lehmer's generator


SWAPPING = types.NamedTuple(
    (int64[::1], int32[:, ::1], int64[:, ::1], *[int64[::1]] * 2, *[float64[::1]] * 3, int64[::1]), Swapping
)


@inlined
def _hand_over(swapping: Swapping, a: int, b: int, group: int, k: int) -> None:
    """Give k positions of an owner in a group of the lowest level to another one."""
    index = swapping.first[group]
    while k > 0:
        position = swapping.members[index]
        index += 1
        if swapping.owners[position] == a:
            swapping.owners[position] = b
            k -= 1


@kernel(void(SWAPPING, int64, float64, float64))
def anneal_by_swaps(swapping: Swapping, steps: int, hottest: float, coldest: float) -> None:
    """Take some steps of the walk on counts, which changes in place; O(levels) each on a window of any size.

    Nodes of one job change places with as many of another job, or with idle ones. A job of n nodes that gives up k
    nodes of group u and gets k of group v, of which it has A_u and A_v, saves ``2 k w (A_v - A_u + k) / n`` hops more,
    w being the hops between the groups' level and the next.

    A step draws a pair of positions; those of one owner or one group change nothing. The temperature falls from the
    hottest, in hops, to the coldest behind the last step.
    """
    owners, counts, groups, weights = swapping.owners, swapping.counts, swapping.groups, swapping.weights
    m = owners.size
    temperature, cooling = hottest, np.exp(np.log(coldest / hottest) / steps)
    for _ in range(steps):
        temperature *= cooling
        p, q = int(lehmer_uniform(swapping.random) * m), int(lehmer_uniform(swapping.random) * m)
        a, b, leaf_p, leaf_q = owners[p], owners[q], groups[p, 0], groups[q, 0]
        if a == b or leaf_p == leaf_q:
            continue
        k = 1 + int(lehmer_uniform(swapping.random) * min(counts[a, leaf_p], counts[b, leaf_q]))
        of_a, of_b = 0.0, 0.0
        for level in range(weights.size):
            u, v = groups[p, level], groups[q, level]
            if u != v:
                of_a += weights[level] * (counts[a, v] - counts[a, u] + k)
                of_b += weights[level] * (counts[b, u] - counts[b, v] + k)
        change = float(2 * k * (of_a * swapping.per_node[a] + of_b * swapping.per_node[b]))
        if change >= 0 or lehmer_uniform(swapping.random) < np.exp(change / temperature):
            for level in range(weights.size):
                u, v = groups[p, level], groups[q, level]
                counts[a, u] -= k
                counts[a, v] += k
                counts[b, v] -= k
                counts[b, u] += k
            _hand_over(swapping, a, b, leaf_p, k)
            _hand_over(swapping, b, a, leaf_q, k)
            swapping.saving[0] += change
