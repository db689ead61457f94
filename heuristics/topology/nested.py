"""Search for DCAS: remove some jobs from a non-crossing partition, insert each on its best window, accept or reject.

The leftover positions on the circle are linked to the next and the previous leftover one: the *ring*. The nodes of a
job are kept as a *chain*: in their order on the circle, beginning after the gap that holds the leftover. The other gaps
hold whole jobs, which are nested in it.
"""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.heuristics.topology.annealing import Schedule
from allocopt.heuristics.topology.greedy import alone_bound
from allocopt.kernels.arrays import IntMatrix, record_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.insertion import insertion_state, single_job_savings
from allocopt.kernels.random import lehmer_state, lehmer_uniform
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.certificates import PartPrices
from allocopt.problems.topology.tables import TREE_KERNELS, encode, group_tree
from allocopt.solving.budget import Budget
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run

NOBODY = -1  # owner of a leftover position
MANY_GROUPS = 256  # groups of the lowest level above which a step draws new prices only where it removes jobs
PLACED_PER_SLICE = 2_000_000  # windows between two looks at the clock: some milliseconds
# Largest difference of the prices of two nodes, in hops. It is larger for few jobs, which all block one another.
FEW_JOBS, PRICE_OF_FEW, PRICE_OF_MANY = 30, 3.0, 1.0
REACH, FEW_LEFT, RELATED = 16, 300, 0.3  # see `_Moves`
STEPS_PER_JOB = 500  # least steps per job if the budget sets no iterations
PATIENCE = 4  # cycles without an improvement after which the search ends before its time limit
FIRST_SLICE, LONGEST_SLICE = 16, 4096  # steps of the first slice, which measures the speed, and most steps of a slice
SHARE, LONGEST_S = 0.1, 0.02  # largest share of the remaining time for a slice, and most seconds of a slice
REPORTING = 0.05  # largest share of the time for offering solutions during the search


class _Circle(NamedTuple):
    # Constants of the search. If there is no leftover, an additional position, the barrier, keeps the ring from being
    # empty; it never belongs to a job. A block of one position crosses no other, so the barrier forbids nothing.

    groups: IntMatrix  # group of each position at each level with several groups, all levels numbered, (M, levels)
    weights: FloatArray  # saving per squared count at each level, in hops, shape (levels,)
    sizes: IntArray  # nodes of each job, shape (J,)
    offset: IntArray  # the chain of job j is chains[offset[j] : offset[j + 1]]
    barrier: int  # position of the barrier, or -1


class _Ring(NamedTuple):
    owners: IntArray  # job of each position, or `NOBODY`, shape (M,)
    after: IntArray  # next leftover position of each leftover one, shape (M,)
    before: IntArray  # previous leftover position
    chains: IntArray  # positions of the jobs, chain by chain
    idle: IntArray  # number of leftover positions, shape (1,)


class _Slide(NamedTuple):
    # Working space of the insertion.
    counts: IntArray  # nodes of the window by group, all 0 between two insertions, shape (V,)
    price: FloatArray  # price of a node of each group of the lowest level, in hops, shape (V,)
    best: IntArray  # first position of the best window
    least: FloatArray  # prices less saving of the best window, and its weighted squares


class _Search(NamedTuple):
    savings: FloatArray  # saving of each job, in hops, shape (J,)
    totals: FloatArray  # savings of the present and the best state, shape (2,)
    best: IntArray  # chains of the best state
    changed: IntArray  # 1 if a job's chain differs from that of the best state, shape (J,)
    removed: IntArray  # the removed jobs in the order of removal, shape (J,)
    order: IntArray  # the removed jobs in the order of insertion
    out: IntArray  # 1 for removed jobs, shape (J,)
    held: IntArray  # chains of the removed jobs before the move
    saved: FloatArray  # savings of the removed jobs before the move
    random: IntArray  # state of Lehmer's generator


class _Moves(NamedTuple):
    price: float  # largest difference of the prices of two nodes, in hops
    most_removed: int  # most jobs drawn in a step; jobs in whose gaps a drawn job lies are removed, too
    reach: int  # if not all windows are tried: number of windows on either side of a place
    few: int  # most leftover nodes for which all windows are tried
    related: float  # share of the moves that remove neighbours on the circle


CIRCLE, RING, SLIDE, SEARCH, MOVES = map(record_type, (_Circle, _Ring, _Slide, _Search, _Moves))


@inlined
def _below(state: IntArray, limit: int) -> int:
    return min(int(lehmer_uniform(state) * limit), limit - 1)


@inlined
def _first_of(circle: _Circle, ring: _Ring, job: int) -> int:
    return int(ring.chains[circle.offset[job]])


@inlined
def _last_of(circle: _Circle, ring: _Ring, job: int) -> int:
    return int(ring.chains[circle.offset[job + 1] - 1])


@inlined
def _copy_chain(circle: _Circle, source: IntArray, target: IntArray, job: int) -> None:
    for index in range(circle.offset[job], circle.offset[job + 1]):
        target[index] = source[index]


@inlined
def _left_of(ring: _Ring, position: int) -> int:
    return position - 1 if position > 0 else ring.owners.size - 1


@inlined
def _parent_of(circle: _Circle, ring: _Ring, job: int) -> int:
    """Return the innermost job in one of whose gaps this job lies, or `NOBODY`."""
    # To the left of the job lie whole jobs, then a node of the leftover or of the parent. Whole jobs are met at their
    # last nodes, the parent is not.
    position = _left_of(ring, _first_of(circle, ring, job))
    owner = ring.owners[position]
    while owner != NOBODY and _last_of(circle, ring, owner) == position:
        position = _left_of(ring, _first_of(circle, ring, owner))
        owner = ring.owners[position]
    return int(owner)


@inlined
def _left_over_before(circle: _Circle, ring: _Ring, position: int) -> int:
    while ring.owners[position] != NOBODY:
        position = _left_of(ring, _first_of(circle, ring, ring.owners[position]))
    return position


@inlined
def _link_chain(circle: _Circle, ring: _Ring, job: int, previous: int) -> None:
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
def _unlink_chain(circle: _Circle, ring: _Ring, job: int) -> None:
    previous = ring.before[_first_of(circle, ring, job)]
    following = ring.after[_last_of(circle, ring, job)]
    ring.after[previous] = following
    ring.before[following] = previous
    for index in range(circle.offset[job], circle.offset[job + 1]):
        ring.owners[ring.chains[index]] = job
    ring.idle[0] -= circle.sizes[job]


@inlined
def _take_out(circle: _Circle, ring: _Ring, search: _Search, job: int, count: int) -> int:
    """Remove a job and all jobs in whose gaps it lies, outermost first; return the number of removed jobs.

    Does nothing if the job is removed already.
    """
    while search.out[job] == 0:
        outer, parent = job, _parent_of(circle, ring, job)
        while parent != NOBODY:
            outer, parent = parent, _parent_of(circle, ring, parent)
        search.removed[count] = outer
        search.out[outer] = 1
        search.saved[outer] = search.savings[outer]
        _copy_chain(circle, ring.chains, search.held, outer)
        # The outermost job has no parent, so adding its nodes to the leftover crosses no other job.
        previous = _left_over_before(circle, ring, _left_of(ring, _first_of(circle, ring, outer)))
        _link_chain(circle, ring, outer, previous)
        count += 1
    return count


@inlined
def _draw_removed(circle: _Circle, ring: _Ring, search: _Search, moves: _Moves) -> int:
    n_jobs = circle.sizes.size
    wanted = 1 + _below(search.random, min(moves.most_removed, n_jobs))
    related = lehmer_uniform(search.random) < moves.related
    count = _take_out(circle, ring, search, _below(search.random, n_jobs), 0)
    for _ in range(4 * wanted):
        if count >= wanted:
            break
        if not related:
            count = _take_out(circle, ring, search, _below(search.random, n_jobs), count)
            continue
        # Draw a neighbour of a removed job, a random number of nodes to the left or to the right.
        job = search.removed[_below(search.random, count)]
        steps, rightwards = _below(search.random, 2 * circle.sizes[job] + 4), lehmer_uniform(search.random) < 0.5
        position = _last_of(circle, ring, job) if rightwards else _first_of(circle, ring, job)
        for _ in range(steps):
            if not rightwards:
                position = _left_of(ring, position)
            else:
                position = position + 1 if position < ring.owners.size - 1 else 0
            if ring.owners[position] != NOBODY:
                job = ring.owners[position]
                if lehmer_uniform(search.random) < 0.3:
                    break
        count = _take_out(circle, ring, search, job, count)
    return count


@inlined
def _scan_windows(circle: _Circle, ring: _Ring, slide: _Slide, job: int, start: int, n_windows: int) -> None:
    """Try at most ``n_windows`` successive windows of the ring, the first one at ``start``; store the best.

    No window holds ``circle.barrier``, if there is one.
    """
    n, per_node = circle.sizes[job], 1.0 / circle.sizes[job]
    squares, paid, held, leaving, entering = 0.0, 0.0, 0, start, start
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
def _scan_from_the_start(circle: _Circle, ring: _Ring, slide: _Slide, job: int, most: int) -> None:
    start = ring.after[circle.barrier] if circle.barrier >= 0 else _left_over_before(circle, ring, 0)
    _scan_windows(circle, ring, slide, job, start, min(most, ring.idle[0]))


@inlined
def _scan_near(circle: _Circle, ring: _Ring, slide: _Slide, job: int, position: int, width: int) -> None:
    """Try the windows that begin up to ``width`` leftover nodes after a position or end up to as many before it."""
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
def _take_best(circle: _Circle, ring: _Ring, slide: _Slide, job: int) -> None:
    position = slide.best[0]
    for index in range(circle.offset[job], circle.offset[job + 1]):
        ring.chains[index] = position
        position = ring.after[position]
    _unlink_chain(circle, ring, job)


@kernel(void(CIRCLE, RING, SEARCH, SLIDE, MOVES, int64, int64, float64, float64))
def _search_partitions(
    circle: _Circle,
    ring: _Ring,
    search: _Search,
    slide: _Slide,
    moves: _Moves,
    n_groups: int,  # number of groups of the lowest level
    steps: int,
    hottest: float,  # temperature of the first step, in hops
    coldest: float,  # temperature of the step after the last
) -> None:
    """Take some steps of the search, in place, while the temperature falls from the hottest to the coldest."""
    temperature, cooling = hottest, np.exp(np.log(coldest / hottest) / steps)
    for _ in range(steps):
        count = _draw_removed(circle, ring, search, moves)
        scale = moves.price * lehmer_uniform(search.random)
        if n_groups <= MANY_GROUPS:
            for group in range(n_groups):
                slide.price[group] = scale * (lehmer_uniform(search.random) - 0.5)
        else:
            for i in range(count):
                job = search.removed[i]
                for index in range(circle.offset[job], circle.offset[job + 1]):
                    slide.price[circle.groups[search.held[index], 0]] = scale * (lehmer_uniform(search.random) - 0.5)
        change = 0.0
        for i in range(count):
            # Draw a random order of insertion.
            j = _below(search.random, i + 1)
            search.order[i] = search.order[j]
            search.order[j] = search.removed[i]
            search.out[search.removed[i]] = 0
            change -= search.saved[search.removed[i]]
        for i in range(count):
            # Each job gets its best window under the prices, among all or those near removed jobs and a random place.
            job = search.order[i]
            slide.least[0] = np.inf
            if ring.idle[0] <= moves.few:
                _scan_from_the_start(circle, ring, slide, job, moves.few)
            else:
                for k in range(count):
                    _scan_near(circle, ring, slide, job, search.held[circle.offset[search.removed[k]]], moves.reach)
                _scan_near(circle, ring, slide, job, _below(search.random, ring.owners.size), moves.reach)
            _take_best(circle, ring, slide, job)
            search.savings[job] = slide.least[1] / circle.sizes[job]
            change += search.savings[job]
        if change >= 0 or lehmer_uniform(search.random) < np.exp(change / temperature):
            search.totals[0] += change
            for i in range(count):
                search.changed[search.removed[i]] = 1
            # Savings are sums of fractions, so smaller differences are rounding.
            if search.totals[0] > search.totals[1] + 1e-9:
                search.totals[1] = search.totals[0]
                for job in range(circle.sizes.size):
                    if search.changed[job]:
                        search.changed[job] = 0
                        _copy_chain(circle, ring.chains, search.best, job)
        else:
            # Undo in reverse order, so that all links are restored.
            for i in range(count - 1, -1, -1):
                job = search.order[i]
                _link_chain(circle, ring, job, ring.before[_first_of(circle, ring, job)])
            for i in range(count - 1, -1, -1):
                job = search.removed[i]
                _copy_chain(circle, search.held, ring.chains, job)
                _unlink_chain(circle, ring, job)
                search.savings[job] = search.saved[job]
        temperature *= cooling


@kernel(void(CIRCLE, RING, SLIDE, int64[::1], int64, int64, int64))
def _place_in_order(
    circle: _Circle, ring: _Ring, slide: _Slide, jobs: IntArray, first: int, last: int, most: int
) -> None:
    """Place ``jobs[first .. last - 1]`` one by one, each on the best of at most ``most`` windows, at prices of 0."""
    for i in range(first, last):
        slide.least[0] = np.inf
        _scan_from_the_start(circle, ring, slide, jobs[i], most)
        _take_best(circle, ring, slide, jobs[i])


# Compiled functions that the search calls from Python.
NESTED_KERNELS = (*TREE_KERNELS, insertion_state, single_job_savings, _place_in_order, _search_partitions)


def search_nested(problem: TopologyProblem, run: Run, budget: Budget, seed: int, schedule: Schedule) -> StopReason:
    """Search under ``dcas``, from the incumbent or from the jobs placed largest first, and prove the bound of FREE.

    Temperatures are in hops. If the budget sets no iterations, the steps of the schedule are the least number of steps:
    of the first cycle if the budget sets a time, otherwise of the whole search.
    """
    if run.solution is None:
        run.offer(Allocation.sequential(problem))
    start, encoding = _Start.of(problem), encode(problem)
    largest, tree = int(encoding.sizes.max()), group_tree(encoding)
    run.prove(alone_bound(encoding, single_job_savings(tree, insertion_state(tree, largest), largest)), PartPrices())
    if len(start.circle.weights) == 0 or run.is_proved():
        return StopReason.COMPLETED
    # Once the time is over, the remaining jobs take any windows.
    ring, slide = start.empty_ring(), start.slide()
    order, size, placed = np.argsort(-start.circle.sizes, kind="stable"), len(ring.owners), 0
    while placed < len(order):
        in_time = not run.clock.expired()
        last = min(len(order), placed + max(1, PLACED_PER_SLICE // size)) if in_time else len(order)
        _place_in_order(start.circle, ring, slide, order, placed, last, size if in_time else 1)
        placed = last
    run.offer(start.allocation(ring.chains))
    price = PRICE_OF_FEW if len(problem.jobs) <= FEW_JOBS else PRICE_OF_MANY
    improvement = _Improvement(start, run, _Moves(price, schedule.most_removed, REACH, FEW_LEFT, RELATED), seed)
    steps = max(schedule.steps, STEPS_PER_JOB * len(problem.jobs))
    if budget.iterations is not None or budget.seconds is None:
        return improvement.cool(budget.iterations or steps, schedule)
    # With a time limit, cool in cycles, each twice as long as the one before.
    idle, stopped_by = 0, StopReason.ITERATIONS
    while idle < PATIENCE and stopped_by is StopReason.ITERATIONS:
        before = improvement.offered
        stopped_by = improvement.cool(steps, schedule)
        idle = 0 if improvement.offered > before else idle + 1
        steps *= 2
    return stopped_by


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """A problem in the form that the search needs, with conversions between allocations and chains."""

    problem: TopologyProblem
    circle: _Circle
    n_groups: int  # number of groups of the lowest level with several groups
    n_vertices: int  # number of groups of all such levels

    @classmethod
    def of(cls, problem: TopologyProblem) -> "_Start":
        encoding = encode(problem)
        # A level with a single group saves the same in every allocation.
        telling = np.flatnonzero(encoding.n_groups > 1)
        counts = encoding.n_groups[telling]
        groups = encoding.groups[telling] + (np.cumsum(counts) - counts)[:, np.newaxis]
        sizes = encoding.sizes.astype(np.int64)
        full = int(sizes.sum()) == encoding.n_idle
        circle = _Circle(
            np.ascontiguousarray(np.hstack((groups, np.zeros((len(telling), int(full)), dtype=np.int64))).T),
            encoding.weights[telling],
            sizes,
            np.append(0, np.cumsum(sizes)),
            encoding.n_idle if full else -1,
        )
        return cls(problem, circle, int(counts[0]) if len(counts) else 0, int(counts.sum()))

    def slide(self) -> _Slide:
        counts = np.zeros(self.n_vertices, dtype=np.int64)
        return _Slide(counts, np.zeros(self.n_vertices), np.zeros(1, dtype=np.int64), np.zeros(2))

    def empty_ring(self) -> _Ring:
        positions = np.arange(len(self.circle.groups))
        return _Ring(
            np.full(len(positions), NOBODY, dtype=np.int64),
            np.roll(positions, -1),
            np.roll(positions, 1),
            np.zeros(int(self.circle.offset[-1]), dtype=np.int64),
            np.array([len(positions)]),
        )

    def ring(self, allocation: Allocation) -> _Ring:
        """Return the ring of a non-crossing allocation."""
        ring = self.empty_ring()
        ring.owners[: len(self.problem.idle_nodes)] = allocation.owners(self.problem)
        left = np.flatnonzero(ring.owners == NOBODY)
        ring.after[left], ring.before[left] = np.roll(left, -1), np.roll(left, 1)
        ring.idle[0] = len(left)
        # From a leftover position on, the nodes of every job are in the order of its chain.
        turned = np.roll(np.arange(len(ring.owners)), -int(left[0]))
        order = np.argsort(ring.owners[turned], kind="stable")
        ring.chains[:] = turned[order[len(left) :]]
        return ring

    def search(self, ring: _Ring, seed: int) -> _Search:
        savings = self.savings(ring.chains)
        totals = np.full(2, savings.sum())
        changed, removed, order, out = np.zeros((4, len(savings)), dtype=np.int64)
        best, held = ring.chains.copy(), np.zeros_like(ring.chains)
        saved = np.zeros(len(savings))
        return _Search(savings, totals, best, changed, removed, order, out, held, saved, lehmer_state(seed))

    def savings(self, chains: IntArray) -> FloatArray:
        """Return the saving of each job, in hops, shape ``(J,)``."""
        circle = self.circle
        jobs = np.repeat(np.arange(len(circle.sizes)), circle.sizes)
        savings = np.zeros(len(circle.sizes))
        for level, weight in enumerate(circle.weights):
            pairs, counts = np.unique(jobs * self.n_vertices + circle.groups[chains, level], return_counts=True)
            np.add.at(savings, pairs // self.n_vertices, weight * counts.astype(np.float64) ** 2)
        return savings / circle.sizes

    def allocation(self, chains: IntArray) -> Allocation:
        owners = np.full(len(self.problem.idle_nodes), NOBODY, dtype=np.int64)
        owners[chains] = np.repeat(np.arange(len(self.circle.sizes)), self.circle.sizes)
        return Allocation.of_owners(self.problem, owners)


class _Improvement:
    def __init__(self, start: _Start, run: Run, moves: _Moves, seed: int) -> None:
        self._start, self._run, self._moves = start, run, moves
        self._ring = start.ring(run.solution)
        self._search, self._slide = start.search(self._ring, seed), start.slide()
        self.offered = float(self._search.totals[1])

    def cool(self, steps: int, schedule: Schedule) -> StopReason:
        # Without a time limit, the slices depend only on the number of steps.
        start, clock, left, reporting_s = self._start, self._run.clock, steps, 0.0
        began, time_s = time.perf_counter(), clock.remaining()

        def temperature(elapsed_s: float) -> float:
            # The temperature depends on the share of steps or of time that is used, whichever is larger.
            of_time = elapsed_s / time_s if time_s > 0 else 1.0
            done = min(1.0, max(1.0 - left / steps, of_time))
            return float(schedule.hottest * (schedule.coldest / schedule.hottest) ** done)

        try:
            while left > 0 and not clock.expired():
                if self._run.is_proved():
                    return StopReason.PROVED
                elapsed, count, per_step = time.perf_counter() - began, LONGEST_SLICE, 0.0
                if clock.seconds is not None and left == steps:
                    count = FIRST_SLICE
                elif clock.seconds is not None:
                    per_step = elapsed / (steps - left)
                    seconds = min(LONGEST_S, SHARE * clock.remaining())
                    count = min(LONGEST_SLICE, max(FIRST_SLICE, int(seconds / per_step)))
                hot, elapsed = temperature(elapsed), elapsed + count * per_step
                count = min(count, left)
                left -= count
                cold = min(hot, temperature(elapsed))
                _search_partitions(
                    start.circle, self._ring, self._search, self._slide, self._moves, start.n_groups, count, hot, cold
                )
                ended = time.perf_counter()
                if reporting_s <= REPORTING * (ended - began):
                    self._offer_best()
                    reporting_s += time.perf_counter() - ended
        finally:
            self._offer_best()
        return StopReason.ITERATIONS if left == 0 else StopReason.TIME_LIMIT

    def _offer_best(self) -> None:
        if self._search.totals[1] > self.offered:
            self.offered = float(self._search.totals[1])
            self._run.offer(self._start.allocation(self._search.best))
