"""Large neighbourhood search over non-crossing partitions: remove some jobs, insert each on its best window, accept."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel
from heuristics.nested.circle import (
    CIRCLE,
    NOBODY,
    RING,
    Circle,
    Ring,
    first_of,
    last_of,
    left_of,
    left_over_before,
    link_chain,
    parent_of,
    remove,
    right_of,
    take_window,
    unlink_chain,
)
from heuristics.nested.insertion import SLIDE, Slide, begin, scan_windows


class Search(NamedTuple):
    """Where the search is.

    Parameters
    ----------
    savings
        What each job saves of its hop cost, in hops, shape ``(J,)``.
    totals
        What the present and the best state save, shape ``(2,)``.
    best
        Chains of the best state.
    changed
        1 where a job's chain is another one than in the best state, shape ``(J,)``.
    removed
        The jobs removed, in that order, shape ``(J,)``; which ones, is said by ``out``.
    order
        The same in the order of insertion.
    out
        1 for removed jobs, shape ``(J,)``.
    held, saved
        Chains and savings of the removed jobs before the move.
    random
        State of the random numbers, one entry.
    """

    savings: FloatArray
    totals: FloatArray
    best: IntArray
    changed: IntArray
    removed: IntArray
    order: IntArray
    out: IntArray
    held: IntArray
    saved: FloatArray
    random: IntArray


class Moves(NamedTuple):
    """How the search moves.

    Parameters
    ----------
    price
        Largest difference of the prices of two nodes, in hops.
    most_removed
        Jobs drawn in a step, at most; those in a gap of which one lies are removed with it.
    reach
        Windows looked at on either side of a place, where there are too many to look at all.
    few
        Left-over nodes up to which all windows are looked at.
    related
        Share of the moves that remove neighbours on the circle.
    """

    price: float
    most_removed: int
    reach: int
    few: int
    related: float


SEARCH = types.NamedTuple(
    (
        *(float64[::1], float64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1]),
        *(float64[::1], int64[::1]),
    ),
    Search,
)
MOVES = types.NamedTuple((float64, int64, int64, int64, float64), Moves)

MANY_GROUPS = 256
"""Groups of the lowest level from which on a step draws new prices only where it removes jobs."""


@inlined
def uniform(state: IntArray) -> float:
    """Draw a number in 0 .. 1 by a multiplicative congruential generator, modulo 2^31 - 1."""
    state[0] = state[0] * 48271 % 2147483647
    return float(state[0] / 2147483647.0)


@inlined
def below(state: IntArray, limit: int) -> int:
    """Draw from ``0 .. limit - 1``."""
    return min(int(uniform(state) * limit), limit - 1)


@inlined
def take_out(circle: Circle, ring: Ring, search: Search, job: int, count: int) -> int:
    """Remove a job and all in whose gaps it lies, outermost first, unless it is removed; return how many are."""
    while search.out[job] == 0:
        outer, parent = job, parent_of(circle, ring, job)
        while parent != NOBODY:
            outer, parent = parent, parent_of(circle, ring, parent)
        search.removed[count] = outer
        search.out[outer] = 1
        search.saved[outer] = search.savings[outer]
        for index in range(circle.offset[outer], circle.offset[outer + 1]):
            search.held[index] = ring.chains[index]
        remove(circle, ring, outer)
        count += 1
    return count


@inlined
def neighbour_of(circle: Circle, ring: Ring, search: Search, job: int) -> int:
    """Draw a job that is near on the circle: behind a random number of left-over nodes, to the left or to the right."""
    steps = below(search.random, 2 * circle.sizes[job] + 4)
    rightwards = uniform(search.random) < 0.5
    position = last_of(circle, ring, job) if rightwards else first_of(circle, ring, job)
    found = job
    for _ in range(steps):
        position = right_of(ring, position) if rightwards else left_of(ring, position)
        if ring.owners[position] != NOBODY:
            found = ring.owners[position]
            if uniform(search.random) < 0.3:
                break
    return int(found)


@inlined
def draw_removed(circle: Circle, ring: Ring, search: Search, moves: Moves) -> int:
    """Remove some random jobs, or some that are near one another on the circle; return how many."""
    n_jobs = circle.sizes.size
    wanted = 1 + below(search.random, min(moves.most_removed, n_jobs))
    related = uniform(search.random) < moves.related
    job = below(search.random, n_jobs)
    count = take_out(circle, ring, search, job, 0)
    for _ in range(4 * wanted):
        if count >= wanted:
            break
        if related:
            near = neighbour_of(circle, ring, search, search.removed[below(search.random, count)])
        else:
            near = below(search.random, n_jobs)
        count = take_out(circle, ring, search, near, count)
    return count


@inlined
def draw_prices(circle: Circle, search: Search, slide: Slide, n_groups: int, count: int, scale: float) -> None:
    """Draw prices for all groups of the lowest level, or where there are many for those of the removed jobs."""
    if n_groups <= MANY_GROUPS:
        for group in range(n_groups):
            slide.price[group] = scale * (uniform(search.random) - 0.5)
        return
    for i in range(count):
        job = search.removed[i]
        for index in range(circle.offset[job], circle.offset[job + 1]):
            slide.price[circle.groups[search.held[index], 0]] = scale * (uniform(search.random) - 0.5)


@inlined
def scan_near(circle: Circle, ring: Ring, slide: Slide, job: int, position: int, width: int) -> None:
    """Look at the windows that begin within reach of a position, or before it by less than the job's nodes."""
    start = left_over_before(circle, ring, position)
    back = circle.sizes[job] + width
    for _ in range(back):
        if start == circle.barrier:
            break
        start = ring.before[start]
    if start == circle.barrier:
        start = ring.after[start]
    scan_windows(circle, ring, slide, job, start, back + width)


@inlined
def insert(circle: Circle, ring: Ring, search: Search, slide: Slide, moves: Moves, job: int, count: int) -> float:
    """Give a job its best window, prices paid, of all or of those near the removed jobs and a random place."""
    begin(slide)
    if ring.idle[0] <= moves.few:
        start = ring.after[circle.barrier] if circle.barrier >= 0 else left_over_before(circle, ring, 0)
        scan_windows(circle, ring, slide, job, start, ring.idle[0])
    else:
        for i in range(count):
            scan_near(circle, ring, slide, job, search.held[circle.offset[search.removed[i]]], moves.reach)
        scan_near(circle, ring, slide, job, below(search.random, ring.owners.size), moves.reach)
    take_window(circle, ring, job, slide.best[0])
    search.savings[job] = slide.least[1] / circle.sizes[job]
    return float(search.savings[job])


@inlined
def shuffle(search: Search, count: int) -> None:
    """Put the removed jobs into a random order of insertion."""
    for i in range(count):
        j = below(search.random, i + 1)
        search.order[i] = search.order[j]
        search.order[j] = search.removed[i]


@inlined
def undo(circle: Circle, ring: Ring, search: Search, count: int) -> None:
    """Put the removed jobs back where they were: all links as they were, last in, first out."""
    for i in range(count - 1, -1, -1):
        job = search.order[i]
        link_chain(circle, ring, job, ring.before[first_of(circle, ring, job)])
    for i in range(count - 1, -1, -1):
        job = search.removed[i]
        for index in range(circle.offset[job], circle.offset[job + 1]):
            ring.chains[index] = search.held[index]
        unlink_chain(circle, ring, job)
        search.savings[job] = search.saved[job]


@inlined
def keep_if_best(circle: Circle, ring: Ring, search: Search, count: int) -> None:
    """Note what a move has changed, and let the present state be the best one if it is."""
    for i in range(count):
        search.changed[search.removed[i]] = 1
    # Savings are sums of fractions; what is better by less than this is not better.
    if search.totals[0] <= search.totals[1] + 1e-9:
        return
    search.totals[1] = search.totals[0]
    for job in range(circle.sizes.size):
        if search.changed[job]:
            search.changed[job] = 0
            for index in range(circle.offset[job], circle.offset[job + 1]):
                search.best[index] = ring.chains[index]


@kernel(void(CIRCLE, RING, SEARCH, SLIDE, MOVES, int64, int64, float64, float64))
def search_partitions(
    circle: Circle,
    ring: Ring,
    search: Search,
    slide: Slide,
    moves: Moves,
    n_groups: int,
    steps: int,
    hottest: float,
    coldest: float,
) -> None:
    """Take some steps of the search, which changes in place.

    Parameters
    ----------
    circle, ring, search, slide
        The window, and where the search is.
    moves
        How it moves.
    n_groups
        Groups of the lowest level.
    steps
        How many steps.
    hottest, coldest
        Temperatures at the first of them, and behind the last one, in hops.
    """
    temperature, cooling = hottest, np.exp(np.log(coldest / hottest) / steps)
    for _ in range(steps):
        count = draw_removed(circle, ring, search, moves)
        draw_prices(circle, search, slide, n_groups, count, moves.price * uniform(search.random))
        shuffle(search, count)
        change = 0.0
        for i in range(count):
            search.out[search.removed[i]] = 0
            change -= search.saved[search.removed[i]]
        for i in range(count):
            change += insert(circle, ring, search, slide, moves, search.order[i], count)
        if change >= 0 or uniform(search.random) < np.exp(change / temperature):
            search.totals[0] += change
            keep_if_best(circle, ring, search, count)
        else:
            undo(circle, ring, search, count)
        temperature *= cooling


@kernel(void(CIRCLE, RING, SEARCH, SLIDE, int64[::1], int64, int64, int64))
def place_in_order(
    circle: Circle, ring: Ring, search: Search, slide: Slide, jobs: IntArray, first: int, last: int, most: int
) -> None:
    """Give the jobs ``jobs[first .. last - 1]``, one after the other, their best windows of what is left over.

    Parameters
    ----------
    circle, ring, search, slide
        The window; the prices are 0.
    jobs
        An order of the jobs, of which those before the first have their nodes.
    first, last
        Which ones.
    most
        Windows looked at for each, at most.
    """
    for i in range(first, last):
        job = jobs[i]
        begin(slide)
        start = ring.after[circle.barrier] if circle.barrier >= 0 else left_over_before(circle, ring, 0)
        scan_windows(circle, ring, slide, job, start, min(most, ring.idle[0]))
        take_window(circle, ring, job, slide.best[0])
        search.savings[job] = slide.least[1] / circle.sizes[job]
