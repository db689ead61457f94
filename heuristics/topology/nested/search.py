"""The search for DCAS, driven: start, slices between two looks at the clock, incumbents, the bound."""

import time
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import insertion_state, single_job_savings
from allocopt.problems.encoding import allocation_of_owners, encode, owners_of
from allocopt.problems.group_tree import TREE_KERNELS, group_tree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.budget import Budget, Clock
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import sequential_allocation
from heuristics.topology.greedy import alone_bound
from heuristics.topology.nested.kernels import (
    NOBODY,
    Circle,
    Moves,
    Ring,
    Search,
    Slide,
    place_in_order,
    search_partitions,
)
from heuristics.topology.random import lehmer_state

NESTED_KERNELS = (*TREE_KERNELS, insertion_state, single_job_savings, place_in_order, search_partitions)
"""Entries that the search calls."""

PLACED_PER_SLICE = 2_000_000
"""Windows looked at between two looks at the clock: some milliseconds."""

FEW_JOBS = 30
PRICE_OF_FEW, PRICE_OF_MANY = 3.0, 1.0
"""Largest difference of the prices of two nodes, in hops: the jobs of a small window stand in each other's way all at
once."""
REACH, FEW_LEFT, RELATED = 16, 300, 0.3
"""See `Moves`."""

STEPS_PER_JOB = 500
"""Steps for each job where the budget sets no iterations, if that is more than what was asked for."""
PATIENCE = 4
"""Cycles without an improvement after which the search ends before its time limit."""

FIRST_SLICE, LONGEST_SLICE = 16, 4096
"""Steps of the first slice under a time limit, from which the speed is known, and of any slice."""
SHARE, LONGEST_S = 0.1, 0.02
"""Share of the time left that a slice may take, and the seconds that it shall take at most."""
REPORTING = 0.05
"""Share of the time that may go into offering solutions on the way."""


def search_nested(
    problem: TopologyProblem,
    run: Run,
    budget: Budget,
    seed: int,
    steps: int,
    hottest: float,
    coldest: float,
    most_removed: int,
) -> StopReason:
    """Search from the incumbent or the jobs placed largest first, whichever is better; prove the bound of FREE.

    Parameters
    ----------
    problem
        A problem under ``dcas``.
    run
        The record, with the warm start as incumbent if there is one, and the running clock.
    budget, seed
        What may be spent, and what fixes every random choice.
    steps
        Steps where the budget sets no iterations, at least: all of them where it sets no time either, else those of
        the first cycle.
    hottest, coldest
        First and last temperature, in hops.
    most_removed
        Jobs drawn in a step, at most; those in a gap of which one lies are removed with it.

    Returns
    -------
    StopReason
        Why it ended.
    """
    if run.solution is None:
        run.offer(sequential_allocation(problem))
    start, encoding = Start.of(problem), encode(problem)
    largest, tree = int(encoding.sizes.max()), group_tree(encoding)
    run.prove(alone_bound(encoding, single_job_savings(tree, insertion_state(tree, largest), largest)))
    if len(start.circle.weights) == 0 or run.is_proved():
        return StopReason.COMPLETED
    _place_largest_first(start, run)
    price = PRICE_OF_FEW if len(problem.jobs) <= FEW_JOBS else PRICE_OF_MANY
    improvement = _Improvement(start, run, Moves(price, most_removed, REACH, FEW_LEFT, RELATED), seed)
    steps = max(steps, STEPS_PER_JOB * len(problem.jobs))
    if budget.iterations is not None or budget.seconds is None:
        return improvement.cool(budget.iterations or steps, hottest, coldest)
    # In cycles, each twice as long as the one before.
    idle, stopped_by = 0, StopReason.ITERATIONS
    while idle < PATIENCE and stopped_by is StopReason.ITERATIONS:
        before = improvement.offered
        stopped_by = improvement.cool(steps, hottest, coldest)
        idle = 0 if improvement.offered > before else idle + 1
        steps *= 2
    return stopped_by


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A problem as the search takes it: between allocations and the chains that the search works on.

    Parameters
    ----------
    problem
        The problem.
    circle
        What does not change in its search.
    n_groups
        Groups of the lowest level that tells idle nodes apart.
    n_vertices
        Groups of all levels.
    """

    problem: TopologyProblem
    circle: Circle
    n_groups: int
    n_vertices: int

    @classmethod
    def of(cls, problem: TopologyProblem) -> "Start":
        """Prepare a problem."""
        encoding = encode(problem)
        # A level of one group saves the same for every allocation.
        telling = np.flatnonzero(encoding.n_groups > 1)
        counts = encoding.n_groups[telling]
        groups = encoding.groups[telling] + (np.cumsum(counts) - counts)[:, np.newaxis]
        sizes = encoding.sizes.astype(np.int64)
        full = int(sizes.sum()) == encoding.n_idle
        circle = Circle(
            np.ascontiguousarray(np.hstack((groups, np.zeros((len(telling), int(full)), dtype=np.int64))).T),
            encoding.weights[telling],
            sizes,
            np.append(0, np.cumsum(sizes)),
            encoding.n_idle if full else -1,
        )
        return cls(problem, circle, int(counts[0]) if len(counts) else 0, int(counts.sum()))

    def slide(self) -> Slide:
        """Allocate the working space of the insertion, without prices."""
        counts = np.zeros(self.n_vertices, dtype=np.int64)
        return Slide(counts, np.zeros(self.n_vertices), np.zeros(1, dtype=np.int64), np.zeros(2))

    def empty_ring(self) -> Ring:
        """Return the ring of all positions, all of them left over."""
        positions = np.arange(len(self.circle.groups))
        return Ring(
            np.full(len(positions), NOBODY, dtype=np.int64),
            np.roll(positions, -1),
            np.roll(positions, 1),
            np.zeros(int(self.circle.offset[-1]), dtype=np.int64),
            np.array([len(positions)]),
        )

    def ring(self, allocation: Allocation) -> Ring:
        """Return the ring of an allocation that is non-crossing."""
        ring = self.empty_ring()
        ring.owners[: len(self.problem.idle_nodes)] = owners_of(self.problem, allocation)
        left = np.flatnonzero(ring.owners == NOBODY)
        ring.after[left], ring.before[left] = np.roll(left, -1), np.roll(left, 1)
        ring.idle[0] = len(left)
        # From a left-over position on, every job's nodes come in the order of its chain.
        turned = np.roll(np.arange(len(ring.owners)), -int(left[0]))
        order = np.argsort(ring.owners[turned], kind="stable")
        ring.chains[:] = turned[order[len(left) :]]
        return ring

    def search(self, ring: Ring, seed: int) -> Search:
        """Begin at a ring."""
        savings = self.savings(ring.chains)
        totals = np.full(2, savings.sum())
        changed, removed, order, out = np.zeros((4, len(savings)), dtype=np.int64)
        best, held = ring.chains.copy(), np.zeros_like(ring.chains)
        saved = np.zeros(len(savings))
        return Search(savings, totals, best, changed, removed, order, out, held, saved, lehmer_state(seed))

    def savings(self, chains: IntArray) -> FloatArray:
        """Return what each job saves of its hop cost, in hops, shape ``(J,)``."""
        circle = self.circle
        jobs = np.repeat(np.arange(len(circle.sizes)), circle.sizes)
        savings = np.zeros(len(circle.sizes))
        for level, weight in enumerate(circle.weights):
            pairs, counts = np.unique(jobs * self.n_vertices + circle.groups[chains, level], return_counts=True)
            np.add.at(savings, pairs // self.n_vertices, weight * counts.astype(np.float64) ** 2)
        return savings / circle.sizes

    def allocation(self, chains: IntArray) -> Allocation:
        """Return the allocation of some chains."""
        owners = np.full(len(self.problem.idle_nodes), NOBODY, dtype=np.int64)
        owners[chains] = np.repeat(np.arange(len(self.circle.sizes)), self.circle.sizes)
        return allocation_of_owners(self.problem, owners)


def _place_largest_first(start: Start, run: Run) -> None:
    """Offer the allocation that gives each job its best window, largest job first.

    When the time has run out, the jobs that are left take any windows.
    """
    ring = start.empty_ring()
    search, slide = start.search(start.ring(run.solution), 0), start.slide()
    order, size = np.argsort(-start.circle.sizes, kind="stable"), len(ring.owners)
    per_slice = max(1, PLACED_PER_SLICE // size)
    placed = 0
    while placed < len(order):
        in_time = not run.clock.expired()
        last = min(len(order), placed + per_slice) if in_time else len(order)
        place_in_order(start.circle, ring, search, slide, order, placed, last, size if in_time else 1)
        placed = last
    run.offer(start.allocation(ring.chains))


class _Improvement:
    """The search from the incumbent of a run on."""

    def __init__(self, start: Start, run: Run, moves: Moves, seed: int) -> None:
        self._start, self._run, self._moves = start, run, moves
        self._ring = start.ring(run.solution)
        self._search, self._slide = start.search(self._ring, seed), start.slide()
        self.offered = float(self._search.totals[1])

    def cool(self, steps: int, hottest: float, coldest: float) -> StopReason:
        """Take all steps, or as many as the time allows; offer the best state now and then, and at the end."""
        start, pace, reporting_s = self._start, _Pace(self._run.clock, steps), 0.0
        try:
            while pace.steps_left > 0 and not self._run.clock.expired():
                if self._run.is_proved():
                    return StopReason.PROVED
                count, *progress = pace.next_slice()
                hot, cold = (float(hottest * (coldest / hottest) ** share) for share in progress)
                search_partitions(
                    start.circle, self._ring, self._search, self._slide, self._moves, start.n_groups, count, hot, cold
                )
                if reporting_s <= REPORTING * pace.elapsed():
                    before = time.perf_counter()
                    self._offer_best()
                    reporting_s += time.perf_counter() - before
        finally:
            self._offer_best()
        return StopReason.ITERATIONS if pace.steps_left == 0 else StopReason.TIME_LIMIT

    def _offer_best(self) -> None:
        if self._search.totals[1] > self.offered:
            self.offered = float(self._search.totals[1])
            self._run.offer(self._start.allocation(self._search.best))


class _Pace:
    """Plans the slices of a search that cools from its first step to its last, or to the end of its time.

    Without a time limit the plan depends on the number of steps alone.
    """

    def __init__(self, clock: Clock, steps: int) -> None:
        self.steps_left = self._steps = steps
        self._clock = clock
        self._began = time.perf_counter()
        self._time_s = clock.remaining()

    def elapsed(self) -> float:
        return time.perf_counter() - self._began

    def next_slice(self) -> tuple[int, float, float]:
        """Return the number of steps of the next slice, and the progress of the search at its begin and end."""
        begin = self._progress(0.0)
        count, seconds = self._planned()
        count = min(count, self.steps_left)
        self.steps_left -= count
        return count, begin, max(begin, self._progress(seconds))

    def _planned(self) -> tuple[int, float]:
        """Return the steps of the next slice, and the seconds they should take."""
        if self._clock.seconds is None:
            return LONGEST_SLICE, 0.0
        taken, elapsed = self._steps - self.steps_left, self.elapsed()
        if taken == 0:
            return FIRST_SLICE, 0.0
        per_step = elapsed / taken
        seconds = min(LONGEST_S, SHARE * self._clock.remaining())
        count = min(LONGEST_SLICE, max(FIRST_SLICE, int(seconds / per_step)))
        return count, count * per_step

    def _progress(self, seconds: float) -> float:
        """Share of the search that is done so many seconds from now: of its steps or of its time, what is more."""
        of_steps = 1.0 - self.steps_left / self._steps
        of_time = (self.elapsed() + seconds) / self._time_s if self._time_s > 0 else 1.0
        return min(1.0, max(of_steps, of_time))
