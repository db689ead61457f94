"""The search for DCAS, driven: start, slices between two looks at the clock, incumbents, the bound."""

import time
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import insertion_state, single_job_savings
from allocopt.kernels.random import lehmer_state
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_owners, encode, owners_of, sequential_allocation
from allocopt.problems.topology.tables import TREE_KERNELS, group_tree
from allocopt.solving.budget import Budget
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
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

NESTED_KERNELS = (*TREE_KERNELS, insertion_state, single_job_savings, place_in_order, search_partitions)
"""Entries that the search calls."""

PLACED_PER_SLICE = 2_000_000  # windows looked at between two looks at the clock: some milliseconds

# Largest difference of the prices of two nodes, in hops: the jobs of a small window stand in each other's way all at
# once.
FEW_JOBS, PRICE_OF_FEW, PRICE_OF_MANY = 30, 3.0, 1.0
REACH, FEW_LEFT, RELATED = 16, 300, 0.3  # see `Moves`

STEPS_PER_JOB = 500  # where the budget sets no iterations, if that is more than what was asked for
PATIENCE = 4  # cycles without an improvement after which the search ends before its time limit

FIRST_SLICE, LONGEST_SLICE = 16, 4096  # steps under a time limit: of the first slice, which tells the speed, and of any
SHARE, LONGEST_S = 0.1, 0.02  # share of the time left that a slice may take, and seconds that it shall take at most
REPORTING = 0.05  # share of the time that may go into offering solutions on the way


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
    problem, run, budget, seed
        See `allocopt.solving.base.SearchSolver.search`; the strategy is ``dcas``.
    steps
        Steps where the budget sets no iterations, at least: all of them where it sets no time either, else those of
        the first cycle.
    hottest, coldest
        First and last temperature, in hops.
    most_removed
        See `Moves`.
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
    """A problem as the search takes it: between allocations and the chains that the search works on."""

    problem: TopologyProblem
    circle: Circle
    n_groups: int  # groups of the lowest level that tells idle nodes apart
    n_vertices: int  # groups of all levels

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
    ring, slide = start.empty_ring(), start.slide()
    order, size = np.argsort(-start.circle.sizes, kind="stable"), len(ring.owners)
    per_slice = max(1, PLACED_PER_SLICE // size)
    placed = 0
    while placed < len(order):
        in_time = not run.clock.expired()
        last = min(len(order), placed + per_slice) if in_time else len(order)
        place_in_order(start.circle, ring, slide, order, placed, last, size if in_time else 1)
        placed = last
    run.offer(start.allocation(ring.chains))


class _Improvement:
    def __init__(self, start: Start, run: Run, moves: Moves, seed: int) -> None:
        self._start, self._run, self._moves = start, run, moves
        self._ring = start.ring(run.solution)
        self._search, self._slide = start.search(self._ring, seed), start.slide()
        self.offered = float(self._search.totals[1])

    def cool(self, steps: int, hottest: float, coldest: float) -> StopReason:
        """Take all steps, or as many as the time allows; offer the best state now and then, and at the end.

        Without a time limit the slices depend on the number of steps alone.
        """
        start, clock, left, reporting_s = self._start, self._run.clock, steps, 0.0
        began, time_s = time.perf_counter(), clock.remaining()

        def temperature(elapsed_s: float) -> float:
            # By the share of the steps or of the time that is done, what is more.
            of_time = elapsed_s / time_s if time_s > 0 else 1.0
            return float(hottest * (coldest / hottest) ** min(1.0, max(1.0 - left / steps, of_time)))

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
                search_partitions(
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
