"""The queue of a pool: the waiting jobs in the order of a policy, and the units that running jobs hold.

Lists of waiting jobs are kept sorted. A long queue has an index, which shows in which parts of it a job for backfilling
may be. The queue is divided into blocks of `BLOCK` columns. A column of `State.least` has lower bounds for
the jobs of a block: the least request of the first resource, and for ``k = 0, 1, ...`` the least estimate of jobs that
request less than ``2**k`` units. When a job leaves, the bounds of its block stay; a search of the block that finds no
job raises them.

When a job leaves an indexed queue, no other job moves: the complement of its number stays in its column and keeps the
order. Such columns are removed when there are more of them than jobs.
"""

import numpy as np
from numba import int64, void

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.events import MOST_INSERTED, enqueue, hold, insert, remove, settle_queue
from allocopt.simulator.kernels.scoring import SCORED, earliest_release, look_over_queue, score_of
from allocopt.simulator.rules import Backfill, OrderKind
from allocopt.simulator.state import (
    BLOCK,
    CANDIDATES,
    CAPACITY,
    EXTRA,
    FREE,
    NOBODY,
    QUEUE,
    SIZE_CLASSES,
    STARTED,
    STATE,
    State,
)

EASY = int(Backfill.EASY)

LONG, SHORT = 1024, 256
"""Numbers of waiting jobs above which an index begins, and below which it ends; a short queue is faster without it."""


@inlined
def end_of_queue(state: State) -> int:
    """Return the column after the last job."""
    clock = state.clock[0]
    return int(clock.first + clock.n_queued + clock.n_gone)


@inlined
def _size_class(units: int) -> int:
    digits = 0
    while units > 0 and digits < SIZE_CLASSES - 1:
        units >>= 1
        digits += 1
    return digits


@helper()
def tighten(state: State, block: int) -> None:
    """Set the bounds of a block to the requests and estimates of its jobs."""
    least, clock = state.least, state.clock[0]
    least[:, block] = np.inf
    for column in range(max(clock.first, block * BLOCK), min(end_of_queue(state), (block + 1) * BLOCK)):
        job = state.lists[QUEUE, column]
        if job >= 0:
            k = 1 + _size_class(state.request[job, 0])
            least[0, block] = min(least[0, block], state.request[job, 0])
            least[k, block] = min(least[k, block], state.jobs[job].estimate)
    for k in range(2, 1 + SIZE_CLASSES):
        least[k, block] = min(least[k, block], least[k - 1, block])


@helper()
def _include(state: State, block: int, job: int) -> None:
    least, estimate = state.least, state.jobs[job].estimate
    least[0, block] = min(least[0, block], state.request[job, 0])
    k = 1 + _size_class(state.request[job, 0])
    # The bounds of larger classes are at most those of smaller ones.
    while k <= SIZE_CLASSES and estimate < least[k, block]:
        least[k, block] = estimate
        k += 1


@inlined
def is_untidy(state: State) -> bool:
    """Whether the index must begin, be renewed, or end."""
    clock = state.clock[0]
    if clock.indexed:
        return bool(clock.n_gone > clock.n_queued or clock.n_queued < SHORT)
    return bool(clock.n_queued > LONG and state.least.size > 0)


@kernel(void(STATE))
def tidy_queue(state: State) -> None:
    """Move the queue to the first column without gaps, and begin, renew or end its index."""
    clock, jobs, end = state.clock[0], state.lists[QUEUE], end_of_queue(state)
    at = 0
    for column in range(clock.first, end):
        if jobs[column] >= 0:
            jobs[at] = jobs[column]
            at += 1
    clock.first = clock.n_gone = 0
    clock.indexed = clock.n_queued >= SHORT and state.least.size > 0
    if clock.indexed:
        for block in range((at - 1) // BLOCK + 1):
            tighten(state, block)


@inlined
def next_block(state: State, block: int, end: int) -> int:
    """Return the first block, from ``block`` on, in which a job for backfilling may be; ``end`` if there is none."""
    least, free = state.least, state.units[FREE, 0]
    if state.rules[0].backfill != EASY:
        while block < end and least[0, block] > free:
            block += 1
        return block
    now, shadow = state.clock[0].now, state.clock[0].shadow
    small, k = min(free, state.units[EXTRA, 0]), 1 + _size_class(free)
    while block < end and least[0, block] > small and (least[0, block] > free or now + least[k, block] > shadow):
        block += 1
    return block


ARRIVAL, FIXED, AGEING = int(OrderKind.ARRIVAL), int(OrderKind.FIXED), int(OrderKind.AGEING)


@inlined
def queued(state: State, at: int) -> int:
    """Return the job at a position of the queue, counted from its head."""
    return int(state.lists[QUEUE, state.clock[0].first + at])


@inlined
def _share_at(state: State, job: int) -> int:
    return int(state.steps.size - state.jobs.size + job)


@inlined
def _rank(state: State, row: int, job: int) -> int:
    """Return the position of a job, or of a complement of its number, among all jobs in the order of a list."""
    job = max(job, ~job)
    return state.jobs[job].order_rank if row == QUEUE else state.jobs[job].backfill_rank


@inlined
def _comes_before(state: State, row: int, kind: int, a: int, b: int) -> bool:
    """Whether job a is before job b now."""
    if kind <= FIXED:
        return _rank(state, row, a) < _rank(state, row, b)
    x, y = state.jobs[a], state.jobs[b]
    now = state.clock[0].now
    if kind != AGEING:
        key_a, key_b = state.steps[_share_at(state, a)], state.steps[_share_at(state, b)]
    elif row == QUEUE:
        key_a, key_b = -x.order_value * (now - x.release), -y.order_value * (now - y.release)
    else:
        key_a, key_b = -x.backfill_value * (now - x.release), -y.backfill_value * (now - y.release)
    return key_a < key_b or (key_a == key_b and a < b)


@earliest_release.answer(State)
@inlined
def _earliest_release(state: State) -> float:
    """Return when the earliest waiting job joined the queue, which must have no gaps."""
    first, earliest = state.clock[0].first, np.inf
    for at in range(first, first + state.clock[0].n_queued):
        earliest = min(earliest, state.jobs[state.lists[QUEUE, at]].release)
    return float(earliest)


@helper()
def _score_list(state: State, row: int, first: int, end: int) -> None:
    """Compute the scores of the jobs of a list."""
    which, scores, now = int(row != QUEUE), state.scores, state.clock[0].now
    look_over_queue(state, which)
    for at in range(first, end):
        job = state.lists[row, at]
        record = state.jobs[job]
        state.steps[_share_at(state, job)] = score_of(scores, which, job, record.estimate, now - record.release)


@helper()
def _share_list(state: State, row: int, first: int, end: int) -> None:
    """Compute the dominant share of the user of each job of a list."""
    for at in range(first, end):
        job, share = state.lists[row, at], 0.0
        # The largest share over all resources (Ghodsi et al., NSDI 2011).
        for resource in range(state.units.shape[1]):
            if state.units[CAPACITY, resource] > 0:
                share = max(share, state.held[state.jobs[job].user, resource] / state.units[CAPACITY, resource])
        state.steps[_share_at(state, job)] = share


@helper()
def _sort_at_gaps(state: State, row: int, kind: int, first: int, end: int, gap: int, moves: int) -> bool:
    """Sort jobs that are ``gap`` columns apart, by insertion; return whether ``moves`` moves were enough."""
    jobs = state.lists[row]
    for i in range(first + gap, end):
        job = jobs[i]
        at = i
        while at >= first + gap and _comes_before(state, row, kind, job, jobs[at - gap]):
            jobs[at] = jobs[at - gap]
            at -= gap
            moves -= 1
        jobs[at] = job
        if moves < 0:
            return False
    return True


@helper()
def sort_list(state: State, row: int, kind: int, begin: int) -> None:
    """Sort the waiting jobs from position ``begin`` on.

    They are usually almost sorted, so that insertion sort is best. If that takes too many moves, Shell sort follows,
    with the gaps of Gonnet and Baeza-Yates (1991).
    """
    clock = state.clock[0]
    first = begin + (clock.first if row == QUEUE else 0)
    end = first - begin + clock.n_queued
    if kind == SCORED:
        _score_list(state, row, first, end)
    elif kind > AGEING:
        _share_list(state, row, first, end)
    gap, moves = 1, 8 * clock.n_queued + 2**18
    while not _sort_at_gaps(state, row, kind, first, end, gap, moves) or gap > 1:
        gap = max(1, (gap if gap > 1 else clock.n_queued) * 5 // 11)
        moves = clock.n_queued * clock.n_queued


@helper()
def place_by_rank(state: State, row: int, first: int, end: int, job: int) -> int:
    """Return the first column in ``first .. end - 1`` whose job is not before ``job``, else ``end``.

    The list must be sorted by rank.
    """
    rank = _rank(state, row, job)
    while first < end:
        middle = (first + end) // 2
        if _rank(state, row, state.lists[row, middle]) < rank:
            first = middle + 1
        else:
            end = middle
    return first


@enqueue.answer(State)
@inlined
def _enqueue(state: State, job: int) -> None:
    """Insert a job into the queue; jobs behind it count as not examined.

    If many jobs join at once, the first `MOST_INSERTED` are inserted in order; `_settle_queue` sorts the others.
    """
    clock, rules, is_late = state.clock[0], state.rules[0], state.clock[0].n_joined >= MOST_INSERTED
    jobs = state.lists[QUEUE]
    if end_of_queue(state) == jobs.size:
        # Only a requeued job can join when the queue reaches the last column.
        tidy_queue(state)
        clock.examined = 0
    at = end = end_of_queue(state)
    if rules.order == ARRIVAL:
        state.jobs[job].order_rank = _rank(state, QUEUE, jobs[end - 1]) + 1 if clock.n_queued else 0
    elif rules.order == FIXED and not is_late:
        at = place_by_rank(state, QUEUE, clock.first, end, job)
    if clock.indexed:
        # Move the jobs between here and the next gap, or the end, by one column.
        room = at
        while room < end and jobs[room] >= 0:
            room += 1
        clock.n_gone -= room < end
        for column in range(room, at, -1):
            jobs[column] = jobs[column - 1]
            if column % BLOCK == 0:
                _include(state, column // BLOCK, jobs[column])
        jobs[at] = job
        _include(state, at // BLOCK, job)
    else:
        insert(jobs, at, end, job)
    clock.examined = min(clock.examined, at - clock.first)
    if rules.own_backfill_order:
        at = clock.n_queued
        if rules.backfill_order == FIXED and not is_late:
            at = place_by_rank(state, CANDIDATES, 0, at, job)
        insert(state.lists[CANDIDATES], at, clock.n_queued, job)
    clock.n_queued += 1
    clock.n_joined += 1
    state.jobs[job].release = clock.now


@helper()
def _sort_joined(state: State, row: int, first: int) -> None:
    """Sort a list by ranks after jobs have been added at its end."""
    clock, jobs, n_jobs = state.clock[0], state.lists[row], state.jobs.size
    if clock.n_joined * clock.n_queued < n_jobs:
        sort_list(state, row, FIXED, 0)
        return
    # Sort by counting, as ranks are unique. The list of started jobs serves as scratch: none has started at this time.
    by_rank = state.lists[STARTED]
    by_rank[:] = NOBODY
    for at in range(first, first + clock.n_queued):
        by_rank[_rank(state, row, jobs[at])] = jobs[at]
    at = first
    for rank in range(n_jobs):
        if by_rank[rank] != NOBODY:
            jobs[at] = by_rank[rank]
            at += 1


@settle_queue.answer(State)
@helper()
def _settle_queue(state: State) -> None:
    """Sort the waiting jobs after many have joined at once, most of them at the end; drop the index."""
    clock, rules = state.clock[0], state.rules[0]
    if rules.own_backfill_order and rules.backfill_order == FIXED:
        _sort_joined(state, CANDIDATES, 0)
    if rules.order == FIXED:
        if clock.indexed:
            tidy_queue(state)
        _sort_joined(state, QUEUE, clock.first)
        clock.examined = clock.indexed = 0


@kernel(int64(STATE, int64))
def place_in_queue(state: State, job: int) -> int:
    """Return the position of a job in the queue, counted from its head, or -1."""
    clock = state.clock[0]
    if state.rules[0].order <= FIXED:
        end = end_of_queue(state)
        at = place_by_rank(state, QUEUE, clock.first, end, job)
        return at - clock.first if at < end and state.lists[QUEUE, at] == job else -1
    for at in range(clock.n_queued):
        if queued(state, at) == job:
            return at
    return -1


@inlined
def dequeue(state: State, at: int) -> None:
    """Remove the job at a position of the queue, counted from its head."""
    clock, jobs = state.clock[0], state.lists[QUEUE]
    column = clock.first + at
    if state.rules[0].own_backfill_order:
        place = 0
        if state.rules[0].backfill_order == FIXED:
            place = place_by_rank(state, CANDIDATES, 0, clock.n_queued, jobs[column])
        while state.lists[CANDIDATES, place] != jobs[column]:
            place += 1
        remove(state.lists[CANDIDATES], place, clock.n_queued)
    if clock.indexed:
        # No job moves: the complement of the number keeps position and rank.
        jobs[column] = ~jobs[column]
        clock.n_gone += 1
        while clock.n_gone > 0 and jobs[clock.first] < 0:
            clock.first += 1
            clock.n_gone -= 1
    elif 2 * at > clock.n_queued:
        # Move the shorter side.
        remove(jobs, column, clock.first + clock.n_queued)
    else:
        insert(jobs, clock.first, column, jobs[column])
        clock.first += 1
    clock.n_queued -= 1


@hold.answer(State)
@inlined
def _hold_units(state: State, job: int, sign: int) -> None:
    """Subtract the units of a job from the free units (sign 1), or add them again (sign -1)."""
    if sign < 0:
        # Jobs that did not fit may fit now.
        state.clock[0].examined = 0
    user = state.jobs[job].user
    for resource in range(state.units.shape[1]):
        units = sign * state.request[job, resource]
        state.units[FREE, resource] -= units
        state.held[user, resource] += units
