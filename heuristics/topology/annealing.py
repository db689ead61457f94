"""Simulated annealing: solvers ``annealing`` and ``annealing-as-published``, and their walks as kernels.

The NSA paper's move removes 1 to n_D jobs and re-inserts them, the largest first, each on consecutive idle nodes from a
random first one. Removing a job nested inside another leaves a hole that others may fill, so the move reaches more than
DCAS allocations. Under strategy ``dcas`` every state is checked, and a move to a crossing state is drawn again, up to
`DRAWS` times in all.

Under ``free`` the cost depends only on counts. A move exchanges nodes of a job in one leaf for equally many nodes of
another leaf, which are idle or belong to another job.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numba import float64, int64, types, void
from numpy.typing import NDArray

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.cluster.topology import hop_costs
from allocopt.errors import UsageError
from allocopt.heuristics.topology.greedy import GREEDY_KERNELS, Greedy, insert_largest_first
from allocopt.kernels.arrays import IntMatrix, put, record_type
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.random import lehmer_state, lehmer_uniform
from allocopt.kernels.tree import ENCODING
from allocopt.problems.topology.tables import encode
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget
from allocopt.topology import Allocation, Strategy, TopologyProblem, TopologySolver

MOST_JOBS, MOST_REMOVED = 20_000, 100
# Work between two looks at the clock, some milliseconds. WALK_SLICE counts steps by the paper's move times the work of
# a step, SWAPS_SLICE counts swaps.
WALK_SLICE, SWAPS_SLICE = 2_000_000, 100_000
OVERHEAD = 200  # constant work of a step by the paper's move, counted in nodes
LARGEST_TABLE = 50_000_000  # most groups times jobs for which the counts are kept, 4 bytes each
DRAWS = 6  # most draws of a move until no jobs cross; two of three draws cross


@dataclass(frozen=True, slots=True)
class Schedule:
    """A geometric cooling schedule, relative to the cost of a hop; raises `UsageError` for a value out of range."""

    hottest: float  # temperature at the first step, as a multiple of the cost of one hop
    coldest: float  # temperature at the last step, likewise; positive, and not above the hottest
    steps: int  # number of steps, at least 1
    most_removed: int  # largest number of jobs that a move removes, 1 .. 100; n_D in the NSA paper

    def __post_init__(self) -> None:
        if not 0 < self.coldest <= self.hottest < float("inf"):
            raise UsageError(f"temperatures must fall and be positive, not from {self.hottest} to {self.coldest}")
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}, must be at least 1")
        if not 1 <= self.most_removed <= MOST_REMOVED:
            raise UsageError(f"most_removed is {self.most_removed}, must be within 1 .. {MOST_REMOVED}")


class Walk(NamedTuple):
    """State of a walk by the paper's move."""

    working: IntArray  # job (or -1) that owns each idle position in the state the next move starts from, shape (m,)
    accepted: IntArray  # the same in the last accepted state
    best: IntArray  # the same in the best state so far
    working_costs: FloatArray  # hop cost of each job in the working state, shape (J,)
    accepted_costs: FloatArray  # hop cost of each job in the accepted state
    totals: FloatArray  # cost of the accepted and of the best state, shape (2,)

    @classmethod
    def at(cls, problem: TopologyProblem, allocation: Allocation) -> "Walk":
        """Return a walk that starts at an allocation."""
        owners = allocation.owners(problem)
        costs = hop_costs(problem.topology, problem.hop_cost, allocation.nodes)
        totals = np.array([costs.sum(), costs.sum()])
        return cls(owners, owners.copy(), owners.copy(), costs, costs.copy(), totals)


class Rules(NamedTuple):
    """Parameters of a walk by the paper's move."""

    hottest: float  # temperature at the first step, in units of the objective
    coldest: float  # temperature at the last step
    steps: int  # number of steps
    most_removed: int  # largest number of jobs removed in a move
    non_crossing: bool  # whether a move must keep jobs and leftover a non-crossing partition of the circle
    # Whether the next move after a rejection starts from the accepted state. The published walk continues from the
    # rejected one.
    restores: bool

    @classmethod
    def of(cls, problem: TopologyProblem, schedule: Schedule, *, restores: bool) -> "Rules":
        """Return the rules for a problem: under ``dcas`` every state must be non-crossing."""
        hottest, coldest = (float(hops * problem.hop_cost) for hops in (schedule.hottest, schedule.coldest))
        return cls(hottest, coldest, schedule.steps, schedule.most_removed, problem.strategy is Strategy.DCAS, restores)


WALK, RULES = record_type(Walk), record_type(Rules)


@helper(allocates=True)
def cost_at(window: Encoding, positions: IntArray, counts: IntArray) -> float:
    """Return the hop cost of a job at some positions; ``counts`` is working space, zero before and after."""
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
def _is_non_crossing(owners: IntArray, sizes: IntArray) -> bool:
    # Whether the jobs and the leftover (owner -1) are a non-crossing partition of the circle. In a scan with a stack of
    # open blocks, a position must belong to the block on top or open a new one.
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
    """Draw from ``0 .. limit - 1``; several times as fast as ``rng.integers``, and uniform up to 2^-53."""
    return int(rng.random() * limit)


@helper(allocates=True)
def remove_jobs(
    window: Encoding, walk: Walk, most: int, jobs: IntArray, idle: IntArray, rng: np.random.Generator
) -> tuple[int, int]:
    """Remove 1 .. ``most`` random jobs; return their number, and the number of ``idle`` positions.

    The removed jobs are the first ones of ``jobs``, the largest first.
    """
    count = 1 + draw_below(most, rng)
    # The first steps of a shuffle give distinct jobs.
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
        # Always written, but kept only if the position is idle: faster than a branch that is hard to predict.
        idle[n_idle] = position
        n_idle += owner < 0
    return count, n_idle


@helper(allocates=True)
def insert_job(working: IntArray, job: int, first: int, idle: IntArray, n_idle: int, block: IntArray) -> int:
    """Fill ``block`` with the idle positions from ``first`` on and give them to a job; return how many remain idle."""
    n = block.size
    wrapped = max(0, first + n - n_idle)
    # Copy the head of the list behind its end, so that a block that wraps around is a slice.
    put(idle[:wrapped], idle[n_idle : n_idle + wrapped])
    for k in range(n):
        block[k] = idle[first + k]
        working[block[k]] = job
    for k in range(wrapped, n_idle - n + wrapped):
        idle[k - wrapped] = idle[k if k < first else k + n]
    return n_idle - n


@helper(allocates=True)
def _go_back(walk: Walk) -> None:
    # The next move starts from the accepted state.
    put(walk.accepted, walk.working)
    put(walk.accepted_costs, walk.working_costs)


@helper(allocates=True)
def accept_or_not(walk: Walk, rules: Rules, step: int, rng: np.random.Generator) -> None:
    """Accept or reject the working state by Metropolis' rule at the temperature of a step."""
    total = walk.working_costs.sum()
    if total > walk.totals[0]:
        temperature = rules.hottest * np.exp(np.log(rules.coldest / rules.hottest) / rules.steps * step)
        if rng.random() >= np.exp((walk.totals[0] - total) / temperature):
            if rules.restores:
                _go_back(walk)
            return
    put(walk.working, walk.accepted)
    put(walk.working_costs, walk.accepted_costs)
    walk.totals[0] = total
    if total < walk.totals[1]:
        walk.totals[1] = total
        put(walk.working, walk.best)


def annealing_kernel(choose: Callable[..., int], guide: types.Type) -> Callable[..., None]:
    """Return the entry ``(window, walk, rules, guide, first, last, rng)`` that takes the steps ``first .. last - 1``.

    The helper ``choose`` returns the index in the idle sequence where job number ``i`` of the ``count`` removed ones
    begins; ``guide`` is the type of its additional argument. It gets whole arrays, because making slices would
    take a tenth of a step's time. The temperature falls geometrically,
    ``T = hottest * exp(-log(hottest / coldest) * t / steps)`` (NSA paper, Algorithm 1, with the factor t that line 11
    lacks).
    """

    def anneal(
        window: Encoding, walk: Walk, rules: Rules, guide: Any, first: int, last: int, rng: np.random.Generator
    ) -> None:
        m, jobs, largest = walk.working.size, np.arange(window.sizes.size), window.sizes.max()
        most = min(rules.most_removed, jobs.size)
        idle, counts = np.empty(m + largest, dtype=np.int64), np.zeros(m, dtype=np.int64)
        blocks = np.empty((most, largest), dtype=np.int64)
        for step in range(first, last):
            for _ in range(DRAWS):
                count, n_idle = remove_jobs(window, walk, most, jobs, idle, rng)
                for i in range(count):
                    block = blocks[i, : window.sizes[jobs[i]]]
                    place = choose(window.sizes, jobs, i, count, idle, n_idle, guide, rng)
                    n_idle = insert_job(walk.working, jobs[i], place, idle, n_idle, block)
                accepts = not rules.non_crossing or _is_non_crossing(walk.working, window.sizes)
                if accepts:
                    break
                _go_back(walk)
            if not accepts:
                continue
            for i in range(count):
                walk.working_costs[jobs[i]] = cost_at(window, blocks[i, : window.sizes[jobs[i]]], counts)
            accept_or_not(walk, rules, step, rng)

    # Stored kernels, and the code that compiles them, find the entry by its module and name.
    anneal.__module__, anneal.__name__ = choose.__module__, f"anneal_{choose.__name__.lstrip('_')}"
    return kernel(void(ENCODING, WALK, RULES, guide, int64, int64, types.npy_rng), allocates=True)(anneal)


@helper(allocates=True)
def _anywhere(
    sizes: IntArray,
    jobs: IntArray,
    i: int,
    count: int,
    idle: IntArray,
    n_idle: int,
    guide: int,
    rng: np.random.Generator,
) -> int:
    return draw_below(n_idle, rng)


anneal_anywhere = annealing_kernel(_anywhere, int64)


def follow_walk(
    problem: TopologyProblem,
    run: Run,
    schedule: Schedule,
    seed: int,
    entry: Callable[..., None],
    per_slice: int,
    *,
    guide: Any,
    restores: bool,
) -> StopReason:
    """Anneal from the incumbent by an entry of `annealing_kernel`; offer better allocations after each slice."""
    window, walk, best = encode(problem), Walk.at(problem, run.solution), float("inf")
    rules, rng = Rules.of(problem, schedule, restores=restores), np.random.default_rng(seed)
    for first in range(0, rules.steps, per_slice):
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        entry(window, walk, rules, guide, first, min(rules.steps, first + per_slice), rng)
        if walk.totals[1] < best:
            best = float(walk.totals[1])
            run.offer(Allocation.of_owners(problem, walk.best))
    return StopReason.ITERATIONS


class _Swapping(NamedTuple):
    """State of the walk on counts; idle positions belong to one additional owner, of infinite size."""

    owners: IntArray  # job of each idle position, or J if it has none, shape (m,)
    counts: Annotated[NDArray[np.int32], 2]  # nodes of each owner by group of all levels, shape (J + 1, V)
    groups: IntMatrix  # group of each idle position at each level, shape (m, levels)
    members: IntArray  # the positions of group u of the lowest level are members[first[u] : first[u + 1]]
    first: IntArray
    weights: FloatArray  # saving per squared count at each level, in hops, shape (levels,)
    per_node: FloatArray  # one over the size of each job, and 0 for the last row, shape (J + 1,)
    saving: FloatArray  # saving of the present state beyond that of the first one, in hops, shape (1,)
    random: IntArray  # state of Lehmer's generator

    @classmethod
    def at(cls, problem: TopologyProblem, allocation: Allocation, seed: int) -> "_Swapping":
        encoding, n_jobs = encode(problem), len(problem.jobs)
        first = np.cumsum(encoding.n_groups) - encoding.n_groups
        groups = np.ascontiguousarray((encoding.groups + first[:, np.newaxis]).T)
        owners = allocation.owners(problem)
        owners[owners < 0] = n_jobs
        counts = np.zeros((n_jobs + 1, int(encoding.n_groups.sum())), dtype=np.int32)
        for of_level in groups.T:
            np.add.at(counts, (owners, of_level), 1)
        members = np.argsort(groups[:, 0], kind="stable")
        ends, per_node = np.append(0, np.cumsum(np.bincount(groups[:, 0]))), np.append(1.0 / encoding.sizes, 0.0)
        of_jobs = encoding.weights, per_node, np.zeros(1)
        return cls(owners, counts, groups, members, ends, *of_jobs, lehmer_state(seed))

    def allocation(self, problem: TopologyProblem) -> Allocation:
        return Allocation.of_owners(problem, np.where(self.owners == len(problem.jobs), -1, self.owners))


@inlined
def _hand_over(swapping: _Swapping, a: int, b: int, group: int, k: int) -> None:
    index = swapping.first[group]
    while k > 0:
        position = swapping.members[index]
        index += 1
        if swapping.owners[position] == a:
            swapping.owners[position] = b
            k -= 1


@kernel(void(record_type(_Swapping), int64, float64, float64))
def _anneal_by_swaps(swapping: _Swapping, steps: int, hottest: float, coldest: float) -> None:
    """Take some steps of the walk on counts, in place, while the temperature, in hops, falls to the coldest."""
    # A step exchanges nodes of one job for equally many of another job, or for idle ones. A job of n nodes that gives
    # up k nodes of group u and gets k of group v, with A_u and A_v nodes there before, saves
    # `2 k w (A_v - A_u + k) / n` more hops, where w is the number of hops between the groups' level and the next.
    owners, counts, groups, weights = swapping.owners, swapping.counts, swapping.groups, swapping.weights
    m = owners.size
    temperature, cooling = hottest, np.exp(np.log(coldest / hottest) / steps)
    for _ in range(steps):
        temperature *= cooling
        p, q = int(lehmer_uniform(swapping.random) * m), int(lehmer_uniform(swapping.random) * m)
        a, b, leaf_p, leaf_q = owners[p], owners[q], groups[p, 0], groups[q, 0]
        # An exchange within a group or with the same owner changes nothing.
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


@dataclass(frozen=True, slots=True)
class WindowAnnealing(TopologySolver):
    """Anneal with the paper's move; O(m) a step."""

    hottest: float = 5.0  # first temperature, as a multiple of the cost of one hop
    coldest: float = 0.25  # last temperature, likewise
    steps: int = 1000  # number of steps if the budget sets no iterations
    most_removed: int = 3  # most jobs removed in a move; 2 in Table I of the paper, but 3 is better at equal time

    restores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Schedule(self.hottest, self.coldest, self.steps, self.most_removed)

    def refusal(self, problem: TopologyProblem) -> str | None:
        n_jobs = len(problem.jobs)
        return None if n_jobs <= MOST_JOBS else f"it has {n_jobs:,} jobs, at most {MOST_JOBS:,} are supported"

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        return (anneal_anywhere,)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        if run.solution is None:
            run.offer(Allocation.sequential(problem))
        schedule = Schedule(self.hottest, self.coldest, budget.iterations or self.steps, self.most_removed)
        return self.walk(problem, schedule, seed, run)

    def walk(self, problem: TopologyProblem, schedule: Schedule, seed: int, run: Run) -> StopReason:
        """Walk from the incumbent; see `follow_walk`."""
        per_slice = max(1, WALK_SLICE // (len(problem.idle_nodes) + len(problem.jobs) + OVERHEAD))
        return follow_walk(problem, run, schedule, seed, anneal_anywhere, per_slice, guide=0, restores=self.restores)


@dataclass(frozen=True, slots=True)
class AnnealingAsPublished(WindowAnnealing):
    """Walk as the NSA authors' code does, to reproduce the paper's Table III.

    A rejected move restores the energy with which the next move is compared, but not the allocation from which the
    next move starts. The temperatures are those of the code (25,000 to 2.5 at 1,000 a hop), not of Table I. The walk
    reaches more than DCAS allocations, so the strategy is ``free``.
    """

    hottest: float = 25.0
    coldest: float = 0.0025
    most_removed: int = 2

    name: ClassVar[str] = "annealing-as-published"
    restores: ClassVar[bool] = False
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )


def _swaps(problem: TopologyProblem) -> bool:
    # Whether the strategy is FREE, the tree has a level below the top, and the counts are few enough to be kept. There
    # are at most as many groups per level as idle nodes, so groups are counted only if this limit is too large.
    levels, owners = len(problem.topology.hops) - 1, len(problem.jobs) + 1
    if problem.strategy is Strategy.DCAS or levels == 0:
        return False
    few = levels * len(problem.idle_nodes) * owners <= LARGEST_TABLE
    return few or int(encode(problem).n_groups.sum()) * owners <= LARGEST_TABLE


@dataclass(frozen=True, slots=True)
class Annealing(WindowAnnealing):
    """Anneal by Metropolis' rule: with the paper's move under ``dcas``, with swaps of nodes under ``free``.

    If the counts of a window would not fit into memory, the paper's move is used under ``free``, too.
    """

    swap_hottest: float = 1.0  # first temperature under ``free``, as a multiple of the cost of one hop
    swap_coldest: float = 0.05  # last temperature under ``free``, likewise
    swaps: int = 100_000  # number of steps under ``free`` if the budget sets no iterations; O(levels) each

    name: ClassVar[str] = "annealing"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )

    def __post_init__(self) -> None:
        WindowAnnealing.__post_init__(self)
        Schedule(self.swap_hottest, self.swap_coldest, self.swaps, self.most_removed)

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        return (*GREEDY_KERNELS, _anneal_by_swaps) if _swaps(problem) else WindowAnnealing.kernels(self, problem)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        if not _swaps(problem):
            return WindowAnnealing.search(self, problem, run, budget, seed)
        if run.solution is None:
            run.offer(Allocation.sequential(problem))
            if Greedy().refusal(problem) is None:
                run.offer(insert_largest_first(problem, run)[0])
        if run.is_proved():
            return StopReason.PROVED
        swapping, steps, offered = _Swapping.at(problem, run.solution, seed), budget.iterations or self.swaps, 0.0
        cooling = np.log(self.swap_coldest / self.swap_hottest) / steps
        for first in range(0, steps, SWAPS_SLICE):
            if run.clock.expired():
                return StopReason.TIME_LIMIT
            last = min(steps, first + SWAPS_SLICE)
            hot, cold = (float(self.swap_hottest * np.exp(cooling * step)) for step in (first, last))
            _anneal_by_swaps(swapping, last - first, hot, cold)
            # Savings are sums of fractions, so smaller differences are rounding.
            if swapping.saving[0] > offered + 1e-9:
                offered = float(swapping.saving[0])
                run.offer(swapping.allocation(problem))
        return StopReason.ITERATIONS
