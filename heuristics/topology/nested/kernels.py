"""Large neighbourhood search over non-crossing partitions: remove some jobs, insert each on its best window, accept.

On the circle of idle positions, those left over are linked to the next and the previous one of them: the ring. The
nodes of a job are kept as a *chain*: in the order in which they follow one another from the gap that holds the leftover
to that gap again. What lies in the other gaps are whole jobs, which are nested in it.
"""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.random import lehmer_uniform

NOBODY = -1
"""Owner of a position that is left over."""

MANY_GROUPS = 256
"""Groups of the lowest level from which on a step draws new prices only where it removes jobs."""


class Circle(NamedTuple):
    """What does not change.

    Where no node is left over, a barrier keeps the ring from being empty: one position more, nobody's for ever. A block
    of one position crosses no other, so that it forbids nothing.
    """

    groups: IntArray  # group of each position at each level that tells nodes apart, numbered through, (M, levels)
    weights: FloatArray  # what a squared count saves at each level, in hops, shape (levels,)
    sizes: IntArray  # nodes of each job, shape (J,)
    offset: IntArray  # the chain of job j is chains[offset[j] : offset[j + 1]]
    barrier: int  # its position, or -1


class Ring(NamedTuple):
    """Who owns what."""

    owners: IntArray  # job of each position, or `NOBODY`, shape (M,)
    after: IntArray  # next left-over position of each left-over one, shape (M,)
    before: IntArray  # previous one
    chains: IntArray  # positions of the jobs, chain by chain
    idle: IntArray  # number of positions left over, shape (1,)


class Slide(NamedTuple):
    """Working space of the insertion."""

    counts: IntArray  # nodes of the window by group, all 0 between two insertions, shape (V,)
    price: FloatArray  # what a job pays for a node of each group of the lowest level, in hops, shape (V,)
    best: IntArray  # first position of the best window
    least: FloatArray  # its cost less what is the same for all windows, prices paid; and the squares it saves


class Search(NamedTuple):
    """Where the search is."""

    savings: FloatArray  # what each job saves of its hop cost, in hops, shape (J,)
    totals: FloatArray  # what the present and the best state save, shape (2,)
    best: IntArray  # chains of the best state
    changed: IntArray  # 1 where a job's chain is another one than in the best state, shape (J,)
    removed: IntArray  # the jobs removed, in that order, shape (J,)
    order: IntArray  # the same in the order of insertion
    out: IntArray  # 1 for removed jobs, shape (J,)
    held: IntArray  # chains of the removed jobs before the move
    saved: FloatArray  # their savings before it
    random: IntArray  # state of Lehmer's generator


class Moves(NamedTuple):
    """How the search moves."""

    price: float  # largest difference of the prices of two nodes, in hops
    most_removed: int  # jobs drawn in a step, at most; those in a gap of which one lies are removed with it
    reach: int  # windows looked at on either side of a place, where there are too many to look at all
    few: int  # left-over nodes up to which all windows are looked at
    related: float  # share of the moves that remove neighbours on the circle


CIRCLE = types.NamedTuple((int64[:, ::1], float64[::1], int64[::1], int64[::1], int64), Circle)
RING = types.NamedUniTuple(int64[::1], 5, Ring)
SLIDE = types.NamedTuple((int64[::1], float64[::1], int64[::1], float64[::1]), Slide)
SEARCH = types.NamedTuple((float64[::1], float64[::1], *[int64[::1]] * 6, float64[::1], int64[::1]), Search)
MOVES = types.NamedTuple((float64, int64, int64, int64, float64), Moves)


@inlined
def _below(state: IntArray, limit: int) -> int:
    return min(int(lehmer_uniform(state) * limit), limit - 1)


@inlined
def _first_of(circle: Circle, ring: Ring, job: int) -> int:
    return int(ring.chains[circle.offset[job]])


@inlined
def _last_of(circle: Circle, ring: Ring, job: int) -> int:
    return int(ring.chains[circle.offset[job + 1] - 1])


@inlined
def _copy_chain(circle: Circle, source: IntArray, target: IntArray, job: int) -> None:
    for index in range(circle.offset[job], circle.offset[job + 1]):
        target[index] = source[index]


@inlined
def _left_of(ring: Ring, position: int) -> int:
    return position - 1 if position > 0 else ring.owners.size - 1


@inlined
def parent_of(circle: Circle, ring: Ring, job: int) -> int:
    """Innermost job in a gap of which a job lies, or `NOBODY`.

    Leftwards from the job lie whole jobs until a node of the leftover, or of the parent: there it is not the last one.
    """
    position = _first_of(circle, ring, job)
    while True:
        position = _left_of(ring, position)
        owner = ring.owners[position]
        if owner == NOBODY:
            return NOBODY
        if _last_of(circle, ring, owner) != position:
            return int(owner)
        position = _first_of(circle, ring, owner)


@inlined
def _left_over_before(circle: Circle, ring: Ring, position: int) -> int:
    """Last left-over position before one, or that one itself."""
    while ring.owners[position] != NOBODY:
        position = _left_of(ring, _first_of(circle, ring, ring.owners[position]))
    return position


@inlined
def _link_chain(circle: Circle, ring: Ring, job: int, previous: int) -> None:
    """Give a job's chain to the leftover, behind one of its positions."""
    following = ring.after[previous]
    for index in range(circle.offset[job], circle.offset[job + 1]):
        position = ring.chains[index]
        ring.owners[position] = NOBODY
        ring.after[previous] = position
        ring.before[position] = previous
        previous = position
    ring.after[previous] = following
    ring.before[following] = previous
    ring.idle[0] += circle.sizes[job]


@inlined
def _unlink_chain(circle: Circle, ring: Ring, job: int) -> None:
    """Give a job its chain, which is consecutive in the ring."""
    previous = ring.before[_first_of(circle, ring, job)]
    following = ring.after[_last_of(circle, ring, job)]
    ring.after[previous] = following
    ring.before[following] = previous
    for index in range(circle.offset[job], circle.offset[job + 1]):
        ring.owners[ring.chains[index]] = job
    ring.idle[0] -= circle.sizes[job]


@inlined
def _take_out(circle: Circle, ring: Ring, search: Search, job: int, count: int) -> int:
    """Remove a job and all in whose gaps it lies, outermost first, unless it is removed; return how many are."""
    while search.out[job] == 0:
        outer, parent = job, parent_of(circle, ring, job)
        while parent != NOBODY:
            outer, parent = parent, parent_of(circle, ring, parent)
        search.removed[count] = outer
        search.out[outer] = 1
        search.saved[outer] = search.savings[outer]
        _copy_chain(circle, ring.chains, search.held, outer)
        # It has no parent: given to the leftover, its nodes cross no other job.
        previous = _left_over_before(circle, ring, _left_of(ring, _first_of(circle, ring, outer)))
        _link_chain(circle, ring, outer, previous)
        count += 1
    return count


@inlined
def _neighbour_of(circle: Circle, ring: Ring, search: Search, job: int) -> int:
    """Draw a job that is near on the circle: behind a random number of left-over nodes, to the left or to the right."""
    found, steps = job, _below(search.random, 2 * circle.sizes[job] + 4)
    rightwards = lehmer_uniform(search.random) < 0.5
    position = _last_of(circle, ring, job) if rightwards else _first_of(circle, ring, job)
    for _ in range(steps):
        if not rightwards:
            position = _left_of(ring, position)
        else:
            position = position + 1 if position < ring.owners.size - 1 else 0
        if ring.owners[position] != NOBODY:
            found = ring.owners[position]
            if lehmer_uniform(search.random) < 0.3:
                break
    return int(found)


@inlined
def _draw_removed(circle: Circle, ring: Ring, search: Search, moves: Moves) -> int:
    """Remove some random jobs, or some that are near one another on the circle; return how many."""
    n_jobs = circle.sizes.size
    wanted = 1 + _below(search.random, min(moves.most_removed, n_jobs))
    related = lehmer_uniform(search.random) < moves.related
    count = _take_out(circle, ring, search, _below(search.random, n_jobs), 0)
    for _ in range(4 * wanted):
        if count >= wanted:
            break
        if related:
            job = _neighbour_of(circle, ring, search, search.removed[_below(search.random, count)])
        else:
            job = _below(search.random, n_jobs)
        count = _take_out(circle, ring, search, job, count)
    return count


@inlined
def _draw_prices(circle: Circle, search: Search, slide: Slide, n_groups: int, count: int, scale: float) -> None:
    """Draw prices for all groups of the lowest level, or where there are many for those of the removed jobs."""
    if n_groups <= MANY_GROUPS:
        for group in range(n_groups):
            slide.price[group] = scale * (lehmer_uniform(search.random) - 0.5)
        return
    for i in range(count):
        job = search.removed[i]
        for index in range(circle.offset[job], circle.offset[job + 1]):
            slide.price[circle.groups[search.held[index], 0]] = scale * (lehmer_uniform(search.random) - 0.5)


@inlined
def _scan_windows(circle: Circle, ring: Ring, slide: Slide, job: int, start: int, n_windows: int) -> None:
    """Look at so many windows of the ring, from the one that begins at a position on; keep the best one.

    It ends before a window that holds the barrier.
    """
    n = circle.sizes[job]
    per_node = 1.0 / n
    squares, paid, held = 0.0, 0.0, 0
    leaving, entering = start, start
    while held < n and entering != circle.barrier:
        rise = 0.0
        for level in range(circle.weights.size):
            group = circle.groups[entering, level]
            rise += circle.weights[level] * (2 * slide.counts[group] + 1)
            slide.counts[group] += 1
        squares += rise
        paid += slide.price[circle.groups[entering, 0]]
        held += 1
        entering = ring.after[entering]
    for _ in range(n_windows if held == n else 0):
        value = paid - squares * per_node
        if value < slide.least[0]:
            slide.least[0], slide.least[1], slide.best[0] = value, squares, leaving
        if entering == circle.barrier:
            break
        paid += slide.price[circle.groups[entering, 0]] - slide.price[circle.groups[leaving, 0]]
        rise = 0.0
        for level in range(circle.weights.size):
            group, other = circle.groups[leaving, level], circle.groups[entering, level]
            if group != other:
                slide.counts[group] -= 1
                rise += 2 * circle.weights[level] * (slide.counts[other] - slide.counts[group])
                slide.counts[other] += 1
        squares += rise
        leaving, entering = ring.after[leaving], ring.after[entering]
    for _ in range(held):
        for level in range(circle.weights.size):
            slide.counts[circle.groups[leaving, level]] -= 1
        leaving = ring.after[leaving]


@inlined
def _scan_from_the_start(circle: Circle, ring: Ring, slide: Slide, job: int, most: int) -> None:
    start = ring.after[circle.barrier] if circle.barrier >= 0 else _left_over_before(circle, ring, 0)
    _scan_windows(circle, ring, slide, job, start, min(most, ring.idle[0]))


@inlined
def _scan_near(circle: Circle, ring: Ring, slide: Slide, job: int, position: int, width: int) -> None:
    """Look at the windows that begin within reach of a position, or before it by less than the job's nodes."""
    start = _left_over_before(circle, ring, position)
    back = circle.sizes[job] + width
    for _ in range(back):
        if start == circle.barrier:
            break
        start = ring.before[start]
    if start == circle.barrier:
        start = ring.after[start]
    _scan_windows(circle, ring, slide, job, start, back + width)


@inlined
def _take_best(circle: Circle, ring: Ring, slide: Slide, job: int) -> None:
    position = slide.best[0]
    for index in range(circle.offset[job], circle.offset[job + 1]):
        ring.chains[index] = position
        position = ring.after[position]
    _unlink_chain(circle, ring, job)


@inlined
def _insert(circle: Circle, ring: Ring, search: Search, slide: Slide, moves: Moves, job: int, count: int) -> float:
    """Give a job its best window, prices paid, of all or of those near the removed jobs and a random place."""
    slide.least[0] = np.inf
    if ring.idle[0] <= moves.few:
        _scan_from_the_start(circle, ring, slide, job, moves.few)
    else:
        for i in range(count):
            _scan_near(circle, ring, slide, job, search.held[circle.offset[search.removed[i]]], moves.reach)
        _scan_near(circle, ring, slide, job, _below(search.random, ring.owners.size), moves.reach)
    _take_best(circle, ring, slide, job)
    search.savings[job] = slide.least[1] / circle.sizes[job]
    return float(search.savings[job])


@inlined
def _undo(circle: Circle, ring: Ring, search: Search, count: int) -> None:
    """Put the removed jobs back where they were: all links as they were, last in, first out."""
    for i in range(count - 1, -1, -1):
        job = search.order[i]
        _link_chain(circle, ring, job, ring.before[_first_of(circle, ring, job)])
    for i in range(count - 1, -1, -1):
        job = search.removed[i]
        _copy_chain(circle, search.held, ring.chains, job)
        _unlink_chain(circle, ring, job)
        search.savings[job] = search.saved[job]


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

    The first one is taken at the hottest temperature, in hops; the coldest would be that of the step after the last.
    ``n_groups``: groups of the lowest level.
    """
    temperature, cooling = hottest, np.exp(np.log(coldest / hottest) / steps)
    for _ in range(steps):
        count = _draw_removed(circle, ring, search, moves)
        _draw_prices(circle, search, slide, n_groups, count, moves.price * lehmer_uniform(search.random))
        change = 0.0
        for i in range(count):
            # A random order of insertion.
            j = _below(search.random, i + 1)
            search.order[i] = search.order[j]
            search.order[j] = search.removed[i]
            search.out[search.removed[i]] = 0
            change -= search.saved[search.removed[i]]
        for i in range(count):
            change += _insert(circle, ring, search, slide, moves, search.order[i], count)
        if change >= 0 or lehmer_uniform(search.random) < np.exp(change / temperature):
            search.totals[0] += change
            for i in range(count):
                search.changed[search.removed[i]] = 1
            # Savings are sums of fractions; what is better by less than this is not better.
            if search.totals[0] > search.totals[1] + 1e-9:
                search.totals[1] = search.totals[0]
                for job in range(circle.sizes.size):
                    if search.changed[job]:
                        search.changed[job] = 0
                        _copy_chain(circle, ring.chains, search.best, job)
        else:
            _undo(circle, ring, search, count)
        temperature *= cooling


@kernel(void(CIRCLE, RING, SLIDE, int64[::1], int64, int64, int64))
def place_in_order(circle: Circle, ring: Ring, slide: Slide, jobs: IntArray, first: int, last: int, most: int) -> None:
    """Give the jobs ``jobs[first .. last - 1]``, one after the other, their best windows of what is left over.

    Those before the first have their nodes, the prices are 0, and at most ``most`` windows are looked at for each.
    """
    for i in range(first, last):
        slide.least[0] = np.inf
        _scan_from_the_start(circle, ring, slide, jobs[i], most)
        _take_best(circle, ring, slide, jobs[i])
