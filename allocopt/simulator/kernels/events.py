"""Events, and the queue in which they let jobs wait: jobs are submitted, start, change their speed and end.

The next event heads a binary heap. Waiting jobs are lists that are kept in the order of a policy, with an index over a
long one, which tells which part of the queue may hold a job that may be backfilled. The queue is cut into blocks of so
many columns. A column of `State.least` has lower bounds for the jobs of a block: the least units that one asks for of
the first resource, and for ``k = 0, 1, ...`` the least estimate of those that ask for less than ``2**k`` units. A job
that leaves does not raise the bounds of its block; who looks through it in vain does.

Nothing moves up when a job leaves an indexed queue: its complement stays and keeps the order, until there are more of
those than jobs.
"""

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.rules import Backfill, EventOrder, OrderKind
from allocopt.simulator.state import (
    BLOCK,
    CANDIDATES,
    CAPACITY,
    ENDED,
    EVENTS,
    EXTRA,
    FREE,
    NOBODY,
    QUEUE,
    RUNNING,
    SIZE_CLASSES,
    STARTED,
    STATE,
    State,
)

EASY = int(Backfill.EASY)

LONG, SHORT = 1024, 256
"""Waiting jobs from which on there is an index, and below which there is none: a short queue is read faster."""


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
    """Set the bounds of a block to what its jobs ask for."""
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
    # No class has a higher bound than one of smaller jobs.
    while k <= SIZE_CLASSES and estimate < least[k, block]:
        least[k, block] = estimate
        k += 1


@inlined
def is_untidy(state: State) -> bool:
    """Whether an index is to begin, to be renewed or to end."""
    clock = state.clock[0]
    if clock.indexed:
        return bool(clock.n_gone > clock.n_queued or clock.n_queued < SHORT)
    return bool(clock.n_queued > LONG and state.least.size > 0)


@kernel(void(STATE))
def tidy_queue(state: State) -> None:
    """Begin, renew or end the index; afterwards no column is left."""
    clock, jobs, end = state.clock[0], state.lists[QUEUE], end_of_queue(state)
    at = clock.first
    for column in range(clock.first, end):
        if jobs[column] >= 0:
            jobs[at] = jobs[column]
            at += 1
    clock.n_gone = 0
    clock.indexed = clock.n_queued >= SHORT
    if clock.indexed:
        for block in range(clock.first // BLOCK, (at - 1) // BLOCK + 1):
            tighten(state, block)


@inlined
def next_block(state: State, block: int, end: int) -> int:
    """Return the first block from one on that may hold a job that fits and does not delay the head, or ``end``."""
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


FEW = 8  # jobs that come at once and are put in order one by one, at most

ARRIVAL, FIXED, AGEING = int(OrderKind.ARRIVAL), int(OrderKind.FIXED), int(OrderKind.AGEING)


@inlined
def queued(state: State, at: int) -> int:
    """Job at a place of the queue, counted from its head."""
    return int(state.lists[QUEUE, state.clock[0].first + at])


@inlined
def _share_at(state: State, job: int) -> int:
    return int(state.steps.size - state.jobs.size + job)


@inlined
def _rank(state: State, row: int, job: int) -> int:
    """Return the place of a job among all jobs, in the order of a list; of one that is gone, too."""
    job = max(job, ~job)
    return state.jobs[job].order_rank if row == QUEUE else state.jobs[job].backfill_rank


@inlined
def _comes_before(state: State, row: int, kind: int, a: int, b: int) -> bool:
    """Whether job a stands before job b now."""
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


@helper()
def _sort_at_gaps(state: State, row: int, kind: int, first: int, end: int, gap: int, moves: int) -> bool:
    """Sort what stands at each gap from the other by insertion; return whether so many moves were enough."""
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
    """Put the waiting jobs from place ``begin`` on in order.

    They are nearly in order already, and insertion is best; where that takes many moves it is left for Shell's sort,
    with gaps as of Gonnet and Baeza-Yates (1991).
    """
    clock = state.clock[0]
    first = begin + (clock.first if row == QUEUE else 0)
    end = first - begin + clock.n_queued
    if kind > AGEING:
        for at in range(first, end):
            job, share = state.lists[row, at], 0.0
            # The dominant share of its user: the largest one of a resource (Ghodsi et al., NSDI 2011).
            for resource in range(state.units.shape[1]):
                if state.units[CAPACITY, resource] > 0:
                    share = max(share, state.held[state.jobs[job].user, resource] / state.units[CAPACITY, resource])
            state.steps[_share_at(state, job)] = share
    gap, moves = 1, 8 * clock.n_queued + 2**18
    while not _sort_at_gaps(state, row, kind, first, end, gap, moves) or gap > 1:
        gap = max(1, (gap if gap > 1 else clock.n_queued) * 5 // 11)
        moves = clock.n_queued * clock.n_queued


@helper()
def place_by_rank(state: State, row: int, first: int, end: int, job: int) -> int:
    """First column in ``first .. end - 1`` of a list, sorted by rank, whose job does not come before a job."""
    rank = _rank(state, row, job)
    while first < end:
        middle = (first + end) // 2
        if _rank(state, row, state.lists[row, middle]) < rank:
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def insert(jobs: IntArray, at: int, end: int, job: int) -> None:
    """Put a job at a place of a list that ends before ``end``."""
    for i in range(end, at, -1):
        jobs[i] = jobs[i - 1]
    jobs[at] = job


@inlined
def _remove(jobs: IntArray, at: int, end: int) -> None:
    """Take the job at a place of a list that ends before ``end`` out."""
    for i in range(at, end - 1):
        jobs[i] = jobs[i + 1]


@inlined
def _enqueue(state: State, job: int) -> None:
    """Let a job join the queue; if it comes before others, what was known of them is void.

    Of those that come at once only a few are put in order now, the others by `_settle_queue`.
    """
    clock, rules, is_late = state.clock[0], state.rules[0], state.clock[0].n_joined >= FEW
    jobs = state.lists[QUEUE]
    at = end = end_of_queue(state)
    if rules.order == ARRIVAL:
        state.jobs[job].order_rank = _rank(state, QUEUE, jobs[end - 1]) + 1 if clock.n_queued else 0
    elif rules.order == FIXED and not is_late:
        at = place_by_rank(state, QUEUE, clock.first, end, job)
    if clock.indexed:
        # Those after it make room up to the next column that is left, or the end.
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
    """Put a list in the order of ranks, to the end of which jobs have joined."""
    clock, jobs, n_jobs = state.clock[0], state.lists[row], state.jobs.size
    if clock.n_joined * clock.n_queued < n_jobs:
        sort_list(state, row, FIXED, 0)
        return
    # Ranks are the numbers of all jobs in another order; and nobody has started since the clock moved.
    by_rank = state.lists[STARTED]
    by_rank[:] = NOBODY
    for at in range(first, first + clock.n_queued):
        by_rank[_rank(state, row, jobs[at])] = jobs[at]
    at = first
    for rank in range(n_jobs):
        if by_rank[rank] != NOBODY:
            jobs[at] = by_rank[rank]
            at += 1


@helper()
def _settle_queue(state: State) -> None:
    """Put the waiting jobs in order after many have joined at once, most of them at its end; the index begins anew."""
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
    """Place of a job in the queue, counted from its head, or -1."""
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
    """Take the job at a place of the queue, counted from its head, out."""
    clock, jobs = state.clock[0], state.lists[QUEUE]
    column = clock.first + at
    if state.rules[0].own_backfill_order:
        place = 0
        if state.rules[0].backfill_order == FIXED:
            place = place_by_rank(state, CANDIDATES, 0, clock.n_queued, jobs[column])
        while state.lists[CANDIDATES, place] != jobs[column]:
            place += 1
        _remove(state.lists[CANDIDATES], place, clock.n_queued)
    if clock.indexed:
        # Nothing moves: the complement keeps the place, and its rank with it.
        jobs[column] = ~jobs[column]
        clock.n_gone += 1
        while clock.n_gone > 0 and jobs[clock.first] < 0:
            clock.first += 1
            clock.n_gone -= 1
    elif 2 * at > clock.n_queued:
        # The shorter side moves.
        _remove(jobs, column, clock.first + clock.n_queued)
    else:
        insert(jobs, clock.first, column, jobs[column])
        clock.first += 1
    clock.n_queued -= 1


@inlined
def _before(state: State, a: int, b: int) -> bool:
    x, y = state.jobs[a], state.jobs[b]
    if x.event != y.event:
        return x.event < y.event
    return x.event_rank < y.event_rank


@inlined
def _put(state: State, at: int, job: int) -> None:
    state.lists[EVENTS, at] = job
    state.jobs[job].event_place = at


@inlined
def _sift_up(state: State, at: int) -> None:
    # Parents move down; the job itself is written once, where it stays.
    job = state.lists[EVENTS, at]
    while at > 0:
        parent = (at - 1) // 2
        if _before(state, state.lists[EVENTS, parent], job):
            break
        _put(state, at, state.lists[EVENTS, parent])
        at = parent
    _put(state, at, job)


@inlined
def _sift_down(state: State, at: int) -> None:
    job = state.lists[EVENTS, at]
    size = state.clock[0].n_events
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(state, state.lists[EVENTS, child + 1], state.lists[EVENTS, child]):
            child += 1
        if _before(state, job, state.lists[EVENTS, child]):
            break
        _put(state, at, state.lists[EVENTS, child])
        at = child
    _put(state, at, job)


@inlined
def _push_event(state: State, job: int) -> None:
    clock = state.clock[0]
    _put(state, clock.n_events, job)
    clock.n_events += 1
    _sift_up(state, clock.n_events - 1)


@inlined
def _pop_event(state: State) -> int:
    clock = state.clock[0]
    job = state.lists[EVENTS, 0]
    clock.n_events -= 1
    if clock.n_events > 0:
        _put(state, 0, state.lists[EVENTS, clock.n_events])
        _sift_down(state, 0)
    return int(job)


BATCHED = int(EventOrder.BATCHED)

KIND = 1 << 40
"""Ranks of events are a kind and the turn of an event within it: how many jobs were started before one that ends, the
number of one that arrives. Kinds are multiples of this number."""
ON_TIME, OFF_TIME = 0, 2 * KIND  # kinds of ends: on the estimate, and before or after it
RELEASE = (3 * KIND, KIND)
"""Kind of arrivals of jobs whose preceding job has ended, by `EventOrder`: an odd multiple, unlike those of ends."""

NOTHING_LEFT, LATER, HAPPENED = 0, 1, 2  # what `advance` found: no event at all, none until the time given, or one


@inlined
def _running_place(state: State, job: int, n: int) -> int:
    """First place among the ``n`` running jobs, sorted by expected end, that does not come before a job."""
    first, end = 0, n
    expected = state.jobs[job].expected_end
    while first < end:
        middle = (first + end) // 2
        other = state.lists[RUNNING, middle]
        promised = state.jobs[other].expected_end
        if promised < expected or (promised == expected and other < job):
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def _hold(state: State, job: int, sign: int) -> None:
    """Take what a job asks for from the free units (sign 1), or give it back (sign -1)."""
    user = state.jobs[job].user
    for resource in range(state.units.shape[1]):
        units = sign * state.request[job, resource]
        state.units[FREE, resource] -= units
        state.held[user, resource] += units


@inlined
def start_job(state: State, job: int) -> None:
    """Start a job that has left the queue, at speed 1."""
    clock, record = state.clock[0], state.jobs[job]
    record.start = record.changed = clock.now
    record.end = record.event = clock.now + min(record.run, record.limit)
    record.expected_end = clock.now + record.estimate
    record.event_rank = clock.n_begun + (ON_TIME if record.end == record.expected_end else OFF_TIME)
    record.remaining = record.run
    _hold(state, job, 1)
    if state.rules[0].track_running:
        insert(state.lists[RUNNING], _running_place(state, job, clock.n_running), clock.n_running, job)
    _push_event(state, job)
    state.lists[STARTED, clock.n_started] = job
    clock.n_started += 1
    clock.n_begun += 1
    clock.n_running += 1


@kernel(void(STATE, int64, float64))
def change_speed(state: State, job: int, speed: float) -> None:
    """Let a running job go on at another speed (seconds of work per second), from now on."""
    record = state.jobs[job]
    now = state.clock[0].now
    record.remaining = max(0.0, record.remaining - (now - record.changed) * record.speed)
    record.changed = now
    record.speed = speed
    needed = record.remaining / speed if speed > 0 else np.inf
    record.end = record.event = min(now + needed, record.start + record.limit)
    record.event_rank = record.event_rank % KIND + (ON_TIME if record.end == record.expected_end else OFF_TIME)
    _sift_up(state, record.event_place)
    _sift_down(state, record.event_place)


@inlined
def _end_first(state: State) -> None:
    """End the running job whose time has come, and let those that waited for it come."""
    clock = state.clock[0]
    job = _pop_event(state)
    _hold(state, job, -1)
    if state.rules[0].track_running:
        _remove(state.lists[RUNNING], _running_place(state, job, clock.n_running), clock.n_running)
    clock.n_running -= 1
    clock.examined = 0
    state.lists[ENDED, clock.n_ended] = job
    clock.n_ended += 1
    waiting = state.jobs[job].dependent
    while waiting != NOBODY:
        # It comes after the time that its user thinks.
        record = state.jobs[waiting]
        record.event = max(record.submit, clock.now + record.think)
        record.event_rank = RELEASE[state.rules[0].event_order] + waiting
        _push_event(state, waiting)
        waiting = record.next_dependent


@inlined
def _is_due(state: State, kind: int) -> bool:
    """Whether the event that heads the heap is to happen now and is an end (kind 0), or a release (`KIND`)."""
    if state.clock[0].n_events == 0:
        return False
    record = state.jobs[state.lists[EVENTS, 0]]
    return bool(record.event == state.clock[0].now and record.event_rank & KIND == kind)


@inlined
def _next_submission(state: State) -> float:
    """Time at which a job that waits for no other is submitted next; ``clock.next_submission`` then is that job."""
    clock = state.clock[0]
    while clock.next_submission < state.jobs.size and state.jobs[clock.next_submission].preceding != NOBODY:
        clock.next_submission += 1
    return state.jobs[clock.next_submission].submit if clock.next_submission < state.jobs.size else np.inf


@inlined
def _take_arrival(state: State) -> bool:
    """Let one job join the queue whose time is now, the lowest in number; return whether there was one."""
    clock = state.clock[0]
    submitted = _next_submission(state) == clock.now
    released = _is_due(state, KIND)
    if released and not (submitted and clock.next_submission < state.lists[EVENTS, 0]):
        _enqueue(state, _pop_event(state))
    elif submitted:
        clock.next_submission += 1
        _enqueue(state, clock.next_submission - 1)
    return released or submitted


@helper()
def _take_one(state: State) -> None:
    """Let one thing happen whose time is now: an arrival, or else an end, of the job that was started first.

    Jobs that end on their estimates have given back what they hold before any of it, for a plan made of estimates
    counts that as free from then on; so do pyss and the schedules published with Gaussier et al. (SC'15).
    """
    first_on_time = KIND
    while _is_due(state, 0) and state.jobs[state.lists[EVENTS, 0]].event_rank < KIND:
        first_on_time = min(first_on_time, state.jobs[state.lists[EVENTS, 0]].event_rank)
        _end_first(state)
    if _take_arrival(state) or not _is_due(state, 0):
        return
    if state.jobs[state.lists[EVENTS, 0]].event_rank % KIND < first_on_time:
        _end_first(state)


@kernel(int64(STATE, float64), forceinline=True)
def advance(state: State, until: float) -> int:
    """Go on to the next time at which a scheduling pass is due, but not beyond ``until``.

    Returns ``HAPPENED``, or ``LATER`` or ``NOTHING_LEFT`` where the time stays as it is.
    """
    clock = state.clock[0]
    clock.n_started = 0
    clock.n_ended = 0
    clock.n_joined = 0
    time = _next_submission(state)
    if clock.n_events > 0:
        time = min(time, state.jobs[state.lists[EVENTS, 0]].event)
    if clock.n_queued > 0 or time < np.inf:
        # Where nobody waits and nobody comes or ends there is nothing to be woken for.
        time = min(time, clock.wake)
    if time == np.inf:
        return NOTHING_LEFT
    if time > until:
        return LATER
    clock.now = time
    if clock.wake <= time:
        clock.wake = np.inf
    if state.rules[0].event_order == BATCHED:
        # All ends, then all arrivals.
        while _is_due(state, 0):
            _end_first(state)
        while _take_arrival(state):
            pass
    else:
        _take_one(state)
    if clock.n_joined > FEW:
        _settle_queue(state)
    return HAPPENED
