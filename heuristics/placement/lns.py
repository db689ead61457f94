"""Solver ``lns`` of placement problems: jobs on several nodes are inserted exactly, and one-node jobs make room.

A step removes a few jobs on several nodes, takes some jobs that are left out, and inserts each in turn at the least hop
cost under random prices of the leaves. The insertion ignores one-node jobs, because they have no hop cost. One-node
jobs in the way then move to the nodes with room that they fill best. The new total cost is accepted or rejected as in
annealing.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import boolean, float64, int64

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.errors import UsageError
from allocopt.heuristics.placement.rules import placements_of
from allocopt.kernels.arrays import IntMatrix, record_type
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.random import bell, below, uniform
from allocopt.placement import PlacementProblem, PlacementSolver
from allocopt.problems.placement.certificates import LeafPrices
from allocopt.problems.placement.prices import PRICE_KERNELS, bound_by_prices
from allocopt.problems.placement.window import (
    BOUND_KERNELS,
    WINDOW,
    PlacementArrays,
    cheapest_counts,
    cheapest_room,
    count_nodes,
    find_room,
    hops_of,
    is_uneven,
    tasks_in,
    whole,
)
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget
from allocopt.solving.result import tolerance_of

LARGEST = 200_000_000  # most jobs times nodes; above, a single step may take a noticeable part of a second
SIZES = 3  # how many numbers of nodes an insertion compares
# Most steps of a search for uneven placements, and most jobs times nodes for which it pays.
UNEVEN_WORK, UNEVEN_PAIRS = 1_000_000, 5_000
IN_THE_WAY, UNTOUCHED = 1e6, 4.0  # penalty of a node where other jobs have to leave, and of a node without jobs
SLICE_S = 0.005  # seconds between two looks at the clock
MOST_REMOVED, MOST_LEFT_OUT = 8, 6  # most jobs that a step removes, and most left-out jobs that it tries
POSTPONED = 0.25  # probability that a job on several nodes is inserted after all others
PRICES_SHARE = 0.3  # share of the remaining time for the bound
SHORTEST, PATIENCE = 500, 5  # steps of the first cycle, and cycles without a better solution until the search ends

BoundByPrices = Callable[[float, Callable[[float], bool]], tuple[float, LeafPrices]]
"""Returns a bound and its certificate.

The arguments are the cost of a known solution, and a function that returns whether a share of the time is over.
"""

TOTAL, BEST = range(2)
TOUCHED, QUEUED, STEP = range(3)


class _Search(NamedTuple):
    """A state of the search."""

    room: IntMatrix  # amounts left by all jobs, shape ``(m, R)``
    users: IntArray  # number of jobs on each node
    wide_room: IntMatrix  # amounts left by jobs on several nodes
    wide_users: IntArray  # number of jobs on several nodes on each node
    used: IntArray  # number of nodes of every job, 0 if it is left out
    held: IntMatrix  # nodes and tasks of all jobs, ``(2, H)``
    costs: FloatArray
    alone: FloatArray  # least cost of every job without other jobs
    first_on: IntArray  # first of the one-node jobs on each node, -1 for none
    next_on: IntArray  # next one-node job on the same node
    old_used: IntArray  # `used` before the step, for the jobs that it has touched
    old: IntMatrix  # `held` before the step, for these jobs
    stamp: IntArray  # last step that has touched each job
    touched: IntArray  # jobs that this step has touched
    queue: IntArray  # jobs to be inserted
    best_used: IntArray  # `used` of the best state
    best: IntMatrix  # `held` of the best state
    wide: IntArray  # jobs on several nodes
    tasks_at: IntArray  # working space, one number per node
    take: IntArray  # working space, one number per leaf
    sums: IntArray  # working space, one number per group
    numbers: IntArray  # number of jobs touched and queued in this step, and number of the step
    totals: FloatArray  # cost of the present and of the best state
    words: WordArray  # state of the random numbers


SEARCH = record_type(_Search)


@inlined
def _copy_places(source: IntMatrix, target: IntMatrix, first: int, count: int) -> None:
    for place in range(first, first + count):
        target[0, place] = source[0, place]
        target[1, place] = source[1, place]


@helper()
def _hold(w: PlacementArrays, s: _Search, job: int, sign: int) -> None:
    """Occupy the nodes of a job (sign 1), or free them (sign -1)."""
    asked = w.jobs[job]
    for place in range(asked.first, asked.first + s.used[job]):
        node, tasks = s.held[0, place], s.held[1, place]
        s.users[node] += sign
        for resource in range(w.free.shape[1]):
            amount = w.per_node[job, resource] + tasks * w.per_task[job, resource]
            if asked.is_exclusive:
                # More than is free, so that even jobs that ask for nothing stay away.
                amount = w.free[node, resource] + 1
            s.room[node, resource] -= sign * amount
            if asked.most > 1:
                s.wide_room[node, resource] -= sign * amount
        if asked.most > 1:
            s.wide_users[node] += sign
        elif sign > 0:
            s.next_on[job] = s.first_on[node]
            s.first_on[node] = job
        elif s.first_on[node] == job:
            s.first_on[node] = s.next_on[job]
        else:
            at = s.first_on[node]
            while s.next_on[at] != job:
                at = s.next_on[at]
            s.next_on[at] = s.next_on[job]


@inlined
def _touch(w: PlacementArrays, s: _Search, job: int) -> None:
    """Store the nodes of a job before a step changes them."""
    if s.stamp[job] == s.numbers[STEP]:
        return
    s.stamp[job] = s.numbers[STEP]
    s.touched[s.numbers[TOUCHED]] = job
    s.numbers[TOUCHED] += 1
    s.old_used[job] = s.used[job]
    _copy_places(s.held, s.old, w.jobs[job].first, s.used[job])


@helper()
def _cost(w: PlacementArrays, s: _Search, job: int, used: int) -> float:
    """Return the cost of a job on the first ``used`` nodes of its places; 0 nodes leave it out."""
    if used == 0:
        return w.left_out_cost
    tree, take, saved = w.tree, w.insertion.take, 0.0
    for vertex in range(tree.idle.size):
        take[vertex] = 0
    for place in range(w.jobs[job].first, w.jobs[job].first + used):
        take[w.leaf[s.held[0, place]]] += 1
    for vertex in range(tree.idle.size):
        for place in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
            take[vertex] += take[tree.children[place]]
        saved += tree.weight[vertex] * take[vertex] * take[vertex]
    return w.scale * hops_of(w, used, saved)


@helper()
def _settle(w: PlacementArrays, s: _Search, job: int, used: int) -> None:
    """Place a job on the first ``used`` nodes of its places."""
    s.used[job] = used
    _hold(w, s, job, 1)
    cost = _cost(w, s, job, used)
    s.totals[TOTAL] += cost - s.costs[job]
    s.costs[job] = cost


@helper()
def _remove(w: PlacementArrays, s: _Search, job: int) -> None:
    """Remove a job and queue it."""
    _touch(w, s, job)
    _hold(w, s, job, -1)
    _settle(w, s, job, 0)
    s.queue[s.numbers[QUEUED]] = job
    s.numbers[QUEUED] += 1


@inlined
def _fit(w: PlacementArrays, s: _Search, job: int, node: int, tasks: int) -> float:
    """Return how badly a job fills a node: what stays free, relative to the job, raised at random by up to a half."""
    needed = w.per_node[job, 0] + tasks * w.per_task[job, 0]
    rest = float(s.room[node, 0] - needed) / (1.0 + needed)
    if s.users[node] == 0 and not w.jobs[job].is_exclusive:
        rest += UNTOUCHED
    return float(rest * (1.0 + 0.5 * uniform(s.words)))


@helper()
def _limit_groups(w: PlacementArrays, s: _Search, job: int) -> None:
    """Clear the room outside the ``most_groups`` groups with most room, at levels where this limit is 2 or more."""
    for level in range(w.groups.shape[0]):
        most = w.most_groups[job, level]
        if most < 2:
            continue
        for group in range(s.sums.size):
            s.sums[group] = 0
        for node in range(s.tasks_at.size):
            s.sums[w.groups[level, node]] += s.tasks_at[node]
        for _ in range(most):
            best = 0
            for group in range(s.sums.size):
                if s.sums[group] > s.sums[best]:
                    best = group
            s.sums[best] = -1
        for node in range(s.tasks_at.size):
            if s.sums[w.groups[level, node]] >= 0:
                s.tasks_at[node] = 0


@helper()
def _pick(w: PlacementArrays, s: _Search, job: int, size: int, share: int) -> int:
    """Choose ``take`` nodes of each leaf among those with room for ``share`` tasks; return their number.

    If ``share`` is 0, choose the nodes with most room, each with as many tasks as it can take.
    """
    tree, first, used, left = w.tree, w.jobs[job].first, 0, w.jobs[job].tasks
    for leaf in range(tree.leaf_first.size - 1):
        for _ in range(s.take[leaf]):
            best, least = -1, np.inf
            for place in range(tree.leaf_first[leaf], tree.leaf_first[leaf + 1]):
                node = tree.leaf_positions[place]
                if s.tasks_at[node] >= max(share, 1):
                    rest = _fit(w, s, job, node, share) if share > 0 else -float(s.tasks_at[node])
                    if tasks_in(w, s.room, s.users, job, node) < share:
                        rest += IN_THE_WAY
                    if rest < least:
                        best, least = node, rest
            given = min(share if share > 0 else s.tasks_at[best], left - (size - used - 1))
            s.held[0, first + used] = best
            s.held[1, first + used] = given
            s.tasks_at[best] = 0
            left -= given
            used += 1
    return used


@helper()
def _pick_roomiest(w: PlacementArrays, s: _Search, job: int) -> int:
    """Choose the nodes with most room, each with as many tasks as it can take; return their number, 0 if too few."""
    asked, used, left = w.jobs[job], 0, w.jobs[job].tasks
    while used < asked.most and (left > 0 or used < asked.least):
        best = 0
        for node in range(s.tasks_at.size):
            if s.tasks_at[node] > s.tasks_at[best]:
                best = node
        given = min(s.tasks_at[best], left - max(asked.least - used - 1, 0))
        if given <= 0:
            return 0
        s.held[0, asked.first + used] = best
        s.held[1, asked.first + used] = given
        s.tasks_at[best] = 0
        left -= given
        used += 1
    return used if left == 0 else 0


@helper(allocates=True)
def _find(w: PlacementArrays, s: _Search, job: int, room: IntMatrix, users: IntArray) -> int:
    """Write the cheapest nodes with room for a job under the prices of the leaves; return their number, 0 for none."""
    asked, least_cost, size_found, mask_found, group_found, share_found = w.jobs[job], np.inf, 0, 0, 0, 0
    for mask in range(asked.first_mask, asked.first_mask + asked.n_masks):
        for group in range(asked.n_groups):
            most_room = find_room(w, room, users, job, mask, asked.level, group, s.tasks_at)
            if most_room == 0:
                continue
            _limit_groups(w, s, job)
            tried, size = 0, whole(max(asked.least, -(-asked.tasks // most_room)), asked.part)
            is_all_even = size == 1 or not is_uneven(s.tasks_at, -(-asked.tasks // size))
            while size <= asked.most and tried < SIZES:
                share = -(-asked.tasks // size)
                if count_nodes(w, s.tasks_at, share) >= size:
                    cost = hops_of(w, size, cheapest_counts(w, job, size))
                    tried += int(cost < np.inf)
                    if cost < least_cost:
                        least_cost, size_found, share_found = cost, size, share
                        mask_found, group_found = mask, group
                        for leaf in range(s.take.size):
                            s.take[leaf] = w.insertion.take[leaf]
                size += asked.part
            if not is_all_even and (asked.part > 1 or w.jobs.size * s.tasks_at.size <= UNEVEN_PAIRS):
                cost, size, _ = cheapest_room(w, job, s.tasks_at, asked.least, UNEVEN_WORK)
                if size > 0 and cost < least_cost:
                    least_cost, size_found, share_found = cost, size, 0
                    mask_found, group_found = mask, group
                    for leaf in range(s.take.size):
                        s.take[leaf] = w.insertion.take[leaf]
    if size_found > 0:
        find_room(w, room, users, job, mask_found, asked.level, group_found, s.tasks_at)
        _limit_groups(w, s, job)
        return _pick(w, s, job, size_found, share_found)
    if asked.part > 1:
        # The nodes with most room may not form whole segments.
        return 0
    for mask in range(asked.first_mask, asked.first_mask + asked.n_masks):
        for group in range(asked.n_groups):
            if find_room(w, room, users, job, mask, asked.level, group, s.tasks_at) > 0:
                _limit_groups(w, s, job)
                used = _pick_roomiest(w, s, job)
                if used > 0:
                    return used
    return 0


@helper(allocates=True)
def _insert(w: PlacementArrays, s: _Search, job: int, room: IntMatrix, users: IntArray) -> None:
    """Insert a job at the least hop cost on nodes with room; remove and queue one-node jobs that are in the way."""
    _touch(w, s, job)
    used, first = _find(w, s, job, room, users), w.jobs[job].first
    if _cost(w, s, job, used) > w.left_out_cost:
        used = 0
    for place in range(first, first + used):
        node, tasks = s.held[0, place], s.held[1, place]
        while tasks_in(w, s.room, s.users, job, node) < tasks:
            _remove(w, s, s.first_on[node])
    _settle(w, s, job, used)


@helper(allocates=True)
def _insert_queued(w: PlacementArrays, s: _Search, ejecting: int) -> None:
    """Insert the first ``ejecting`` queued jobs in order, then one-node jobs that were in the way, largest first."""
    # If jobs are left out, one of the first may be inserted last: without it, several others may have room.
    last, is_full = -1, s.totals[TOTAL] - ejecting * w.left_out_cost >= w.left_out_cost
    for at in range(ejecting):
        if is_full and last < 0 and w.jobs[s.queue[at]].most > 1 and uniform(s.words) < POSTPONED:
            last = s.queue[at]
        else:
            _insert(w, s, s.queue[at], s.wide_room, s.wide_users)
    for at in range(ejecting, s.numbers[QUEUED]):
        largest = at
        for other in range(at + 1, s.numbers[QUEUED]):
            if w.jobs[s.queue[other]].tasks > w.jobs[s.queue[largest]].tasks:
                largest = other
        job, s.queue[largest] = s.queue[largest], s.queue[at]
        s.queue[at] = job
        # A one-node job goes to the node with room that it fills best.
        _touch(w, s, job)
        asked, best, least = w.jobs[job], -1, np.inf
        for mask in range(asked.first_mask, asked.first_mask + asked.n_masks):
            for node in range(s.users.size):
                has_room = w.masks[mask, node] and tasks_in(w, s.room, s.users, job, node) >= asked.tasks
                if has_room and asked.part == 1:
                    rest = _fit(w, s, job, node, asked.tasks)
                    if rest < least:
                        best, least = node, rest
        if best >= 0:
            s.held[0, asked.first], s.held[1, asked.first] = best, asked.tasks
        _settle(w, s, job, int(best >= 0))
    if last >= 0:
        _insert(w, s, last, s.room, s.users)


@helper()
def _keep_best(s: _Search) -> None:
    s.totals[TOTAL] = 0.0
    for job in range(s.used.size):
        s.totals[TOTAL] += s.costs[job]
        s.best_used[job] = s.used[job]
    s.totals[BEST] = s.totals[TOTAL]
    _copy_places(s.held, s.best, 0, s.held.shape[1])


@inlined
def _begin_step(s: _Search) -> None:
    s.numbers[STEP] += 1
    s.numbers[TOUCHED], s.numbers[QUEUED] = 0, 0


@helper()
def _queue_some(w: PlacementArrays, s: _Search, most_removed: int) -> None:
    """Remove and queue some jobs on several nodes, most of them near each other; queue some jobs that are left out."""
    anchor, some_left_out = below(s.words, s.users.size), s.totals[TOTAL] >= w.left_out_cost
    for number in range((1 + below(s.words, most_removed)) if s.wide.size > 0 else 0):
        chosen, nearest = -1, np.inf
        tries = 1 if uniform(s.words) < 0.3 else 4
        for _ in range(tries):
            job = s.wide[below(s.words, s.wide.size)]
            if s.used[job] == 0:
                continue
            distance = float(abs(s.held[0, w.jobs[job].first] - anchor))
            if number == 0:
                # Prefer jobs that cost much more than they have to.
                distance = s.alone[job] - s.costs[job]
            if distance < nearest:
                chosen, nearest = job, distance
        if chosen >= 0:
            if number == 0:
                anchor = s.held[0, w.jobs[chosen].first]
            _remove(w, s, chosen)
    for _ in range((1 + below(s.words, MOST_LEFT_OUT)) * some_left_out):
        for _ in range(8):
            job = below(s.words, s.used.size)
            if s.used[job] == 0 and s.stamp[job] != s.numbers[STEP]:
                _touch(w, s, job)
                s.queue[s.numbers[QUEUED]] = job
                s.numbers[QUEUED] += 1
                break


@kernel(boolean(WINDOW, SEARCH, boolean), allocates=True)
def _begin_search(w: PlacementArrays, s: _Search, is_given: bool) -> bool:
    """Place the jobs as in ``best`` if ``is_given``, otherwise from the largest to the smallest; return True."""
    _begin_step(s)
    s.totals[TOTAL] = 0.0
    for job in range(s.used.size):
        _hold(w, s, job, -1)
        s.used[job] = 0
        s.costs[job] = w.left_out_cost
        s.totals[TOTAL] += w.left_out_cost
    if is_given:
        for job in range(s.used.size):
            _copy_places(s.best, s.held, w.jobs[job].first, s.best_used[job])
            _settle(w, s, job, s.best_used[job])
    else:
        for at in range(s.wide.size):
            _insert(w, s, s.wide[at], s.wide_room, s.wide_users)
        for job in range(s.used.size):
            if w.jobs[job].most == 1:
                s.queue[s.numbers[QUEUED]] = job
                s.numbers[QUEUED] += 1
        _insert_queued(w, s, 0)
    _keep_best(s)
    return True


@kernel(float64(WINDOW, SEARCH, int64, float64, float64, float64, int64), allocates=True)
def _search_placements(
    w: PlacementArrays, s: _Search, steps: int, temperature: float, factor: float, price: float, most_removed: int
) -> float:
    """Take some steps, multiplying the temperature by ``factor`` after each; return the last temperature."""
    for _ in range(steps):
        before = s.totals[TOTAL]
        _begin_step(s)
        _queue_some(w, s, most_removed)
        sigma = price * uniform(s.words)
        for leaf in range(w.insertion.price.size):
            w.insertion.price[leaf] = sigma * bell(s.words)
        ejecting = s.numbers[QUEUED]
        for at in range(ejecting - 1, 0, -1):
            other = below(s.words, at + 1)
            job, s.queue[other] = s.queue[other], s.queue[at]
            s.queue[at] = job
        _insert_queued(w, s, ejecting)
        worse = s.totals[TOTAL] - before
        if worse > 0 and uniform(s.words) >= math.exp(-worse / temperature):
            for at in range(s.numbers[TOUCHED]):
                _hold(w, s, s.touched[at], -1)
                s.used[s.touched[at]] = 0
            for at in range(s.numbers[TOUCHED]):
                job = s.touched[at]
                _copy_places(s.old, s.held, w.jobs[job].first, s.old_used[job])
                _settle(w, s, job, s.old_used[job])
        elif s.totals[TOTAL] < s.totals[BEST] - 1e-9 * abs(s.totals[BEST]):
            _keep_best(s)
        temperature *= factor
    return temperature


@dataclass(frozen=True, slots=True)
class Lns(PlacementSolver):
    """Remove a few jobs on several nodes and insert each again where it costs least under random prices of the leaves.

    Temperatures fall in cycles. Each cycle is twice as long as the one before and starts from the best solution.
    """

    name: ClassVar[str] = "lns"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(), frozenset({Promise.ANYTIME, Promise.BOUND}), f"{LARGEST:,} jobs x nodes"
    )
    hottest: float = 1.0  # first temperature of a cycle, in hops
    coldest: float = 0.02  # last temperature of a cycle, in hops
    price: float = 4.0  # largest standard deviation of the price of a node, in hops
    most_removed: int = 4  # most jobs on several nodes that a step removes

    def __post_init__(self) -> None:
        if not (self.hottest >= self.coldest > 0 and self.price >= 0 and 1 <= self.most_removed <= MOST_REMOVED):
            fault = f"hottest >= coldest > 0, price >= 0 and most_removed within 1 .. {MOST_REMOVED}"
            raise UsageError(f"options of lns are out of range: they must have {fault}")

    def refusal(self, problem: PlacementProblem) -> str | None:
        product = len(problem.jobs) * problem.size
        return None if product <= LARGEST else f"it has {product:,} jobs x nodes, at most {LARGEST:,} are supported"

    def kernels(self, problem: PlacementProblem) -> Iterable[Callable[..., Any]]:
        return (*BOUND_KERNELS, *PRICE_KERNELS, _begin_search, _search_placements)

    def search(self, problem: PlacementProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        window = PlacementArrays.of(problem)
        kinds = window.by_kind()
        of_kind = kinds.alone(run.clock.expired)
        alone = of_kind[kinds.of_job]
        run.prove(problem.bound_of(float(kinds.counts @ of_kind)), LeafPrices())
        if run.is_proved() or run.clock.expired():
            return StopReason.TIME_LIMIT
        # The search begins with no job placed, and with the given solution as the best one found.
        n, m, levels = window.jobs.size, len(window.free), len(window.groups)
        free, in_use, most = window.free, window.in_use, window.jobs["most"]
        of_jobs = np.zeros((4, n), dtype=np.int64)
        held = np.zeros((2, int(most.sum())), dtype=np.int64)
        best, best_used = held.copy(), np.zeros(n, dtype=np.int64)
        for job, places in enumerate(run.solution.of_jobs if run.solution is not None else ()):
            first = int(window.jobs["first"][job])
            best_used[job] = len(places)
            best[:, first : first + len(places)] = np.array(places, dtype=np.int64).reshape(-1, 2).T
        wide = np.flatnonzero(most > 1)
        size = window.jobs["tasks"][wide] * np.maximum(window.jobs["least"][wide], 1)
        wide = wide[np.argsort(-size, kind="stable")]
        n_groups = int(window.groups.max()) + 1 if levels else 1
        lengths = n + MOST_REMOVED + MOST_LEFT_OUT, m, len(window.tree.leaf_first) - 1, n_groups, 3
        queue, tasks_at, take, sums, numbers = (np.zeros(length, dtype=np.int64) for length in lengths)
        used, old_used, stamp, touched = of_jobs
        words = np.random.default_rng(seed).integers(1, 2**63, 4, dtype=np.uint64)
        state = _Search(
            *(free.copy(), in_use.copy(), free.copy(), in_use.copy(), used, held, np.zeros(n), alone),
            *(np.full(m, -1), np.full(n, -1), old_used, held.copy(), stamp, touched, queue, best_used, best, wide),
            *(tasks_at, take, sums, numbers, np.zeros(2), words),
        )
        _begin_search(window, state, run.solution is not None)
        try:

            def bounded(known: float, is_over: Callable[[float], bool]) -> tuple[float, LeafPrices]:
                bound, proof = bound_by_prices(kinds.window, kinds.counts, of_kind, known, is_over)
                return problem.bound_of(bound), proof

            return self._cool(window, state, run, budget, bounded)
        finally:
            _offer(window, state, run)

    def _cool(
        self, window: PlacementArrays, state: _Search, run: Run, budget: Budget, bounded: BoundByPrices
    ) -> StopReason:
        done, step_s, length, idle = 0, SLICE_S, SHORTEST, 0
        _offer(window, state, run)
        while idle < PATIENCE or budget.iterations is not None:
            before, at, temperature = state.totals[BEST], 0, self.hottest * window.scale
            while at < length:
                left = length - at
                if budget.iterations is not None:
                    left = min(left, budget.iterations - done)
                if run.is_proved() or left <= 0 or run.clock.expired():
                    return StopReason.ITERATIONS if left <= 0 else StopReason.TIME_LIMIT
                in_time = run.clock.remaining() / step_s
                if done > 0 and in_time < 3 * left:
                    # Shorten the last cycle so that it ends with the time.
                    length = at + max(1, int(in_time))
                    left = length - at
                steps = left if math.isinf(in_time) else min(left, max(1, int(SLICE_S / step_s)))
                factor = (self.coldest * window.scale / temperature) ** (1.0 / max(1, length - at))
                started = time.perf_counter()
                temperature = _search_placements(
                    window, state, steps, temperature, factor, self.price, self.most_removed
                )
                step_s = max(1e-7, (time.perf_counter() - started) / steps)
                at, done = at + steps, done + steps
                if state.totals[BEST] - (run.bound or 0.0) <= tolerance_of(state.totals[BEST]):
                    _offer(window, state, run)
            if state.totals[BEST] < before:
                _offer(window, state, run)
            if length == SHORTEST:
                # A good solution shows how far prices have to rise.
                _prove_by_prices(bounded, float(state.totals[BEST]), run)
            idle = 0 if state.totals[BEST] < before else idle + 1
            length *= 2
            _begin_search(window, state, True)
        return StopReason.COMPLETED


def _offer(window: PlacementArrays, state: _Search, run: Run) -> None:
    run.offer(placements_of(window.jobs["first"], state.best_used, state.best))


def _prove_by_prices(bounded: BoundByPrices, known: float, run: Run) -> None:
    left = run.clock.remaining()

    def is_over(share: float) -> bool:
        return run.clock.remaining() < (1.0 - share * PRICES_SHARE) * left

    run.prove(*bounded(known, is_over))
