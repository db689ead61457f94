"""Events: jobs are submitted, start, change their speed and end.

The next event heads a binary heap. A state is any named tuple that has the arrays of `Events`. What a job holds while
it runs, and how the waiting jobs are kept, are questions that each kind of state answers.
"""

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import helper, inlined, kernel, question
from allocopt.simulator.rules import EventOrder
from allocopt.simulator.state import ENDED, EVENTS, NOBODY, RUNNING, STARTED, STATE, Events


@question
def hold(state: Events, job: int, sign: int) -> None:
    """Take what a job holds while it runs (sign 1), or give it back (sign -1)."""


@question
def enqueue(state: Events, job: int) -> None:
    """Let a job join the queue."""


@question
def settle_queue(state: Events) -> None:
    """Put the waiting jobs in order after many have joined at once."""


@question
def next_change(state: Events) -> float:
    """Return when the machine changes next by itself; infinite if it does not."""
    raise NotImplementedError


@question
def change_machine(state: Events) -> None:
    """Let the machine change as it does now."""


FEW = 8  # jobs that come at once and are put in order one by one, at most


@inlined
def insert(jobs: IntArray, at: int, end: int, job: int) -> None:
    """Put a job at a place of a list that ends before ``end``."""
    for i in range(end, at, -1):
        jobs[i] = jobs[i - 1]
    jobs[at] = job


@inlined
def remove(jobs: IntArray, at: int, end: int) -> None:
    """Take the job at a place of a list that ends before ``end`` out."""
    for i in range(at, end - 1):
        jobs[i] = jobs[i + 1]


@inlined
def _before(state: Events, a: int, b: int) -> bool:
    x, y = state.jobs[a], state.jobs[b]
    if x.event != y.event:
        return x.event < y.event
    return x.event_rank < y.event_rank


@inlined
def _put(state: Events, at: int, job: int) -> None:
    state.lists[EVENTS, at] = job
    state.jobs[job].event_place = at


@inlined
def _sift_up(state: Events, at: int) -> None:
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
def _sift_down(state: Events, at: int) -> None:
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
def _push_event(state: Events, job: int) -> None:
    clock = state.clock[0]
    _put(state, clock.n_events, job)
    clock.n_events += 1
    _sift_up(state, clock.n_events - 1)


@inlined
def _pop_event(state: Events) -> int:
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
def _running_place(state: Events, job: int, n: int) -> int:
    """First place among the ``n`` running jobs, sorted by expected end, then start, that is not before a job."""
    first, end = 0, n
    record = state.jobs[job]
    while first < end:
        middle = (first + end) // 2
        other = state.jobs[state.lists[RUNNING, middle]]
        is_before = other.expected_end < record.expected_end
        if other.expected_end == record.expected_end:
            is_before = other.event_rank % KIND < record.event_rank % KIND
        if is_before:
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def start_job(state: Events, job: int) -> None:
    """Start a job that has left the queue, at speed 1."""
    clock, record = state.clock[0], state.jobs[job]
    record.start = record.changed = clock.now
    record.end = record.event = clock.now + min(record.run, record.limit)
    record.expected_end = clock.now + record.estimate
    record.event_rank = clock.n_begun + (ON_TIME if record.end == record.expected_end else OFF_TIME)
    record.remaining = record.run
    hold(state, job, 1)
    if state.rules[0].track_running:
        insert(state.lists[RUNNING], _running_place(state, job, clock.n_running), clock.n_running, job)
    _push_event(state, job)
    state.lists[STARTED, clock.n_started] = job
    clock.n_started += 1
    clock.n_begun += 1
    clock.n_running += 1


@kernel(void(STATE, int64, float64))
def change_speed(state: Events, job: int, speed: float) -> None:
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


@kernel(void(STATE, int64))
def requeue(state: Events, job: int) -> None:
    """Stop a running job and let it join the queue again, as if it came now; the work that it has done is lost."""
    clock, record = state.clock[0], state.jobs[job]
    record.requeues += 1
    record.lost_s += clock.now - record.start
    clock.n_events -= 1
    if record.event_place < clock.n_events:
        moved, at = state.lists[EVENTS, clock.n_events], record.event_place
        _put(state, at, moved)
        _sift_up(state, at)
        _sift_down(state, state.jobs[moved].event_place)
    hold(state, job, -1)
    if state.rules[0].track_running:
        remove(state.lists[RUNNING], _running_place(state, job, clock.n_running), clock.n_running)
    clock.n_running -= 1
    for at in range(clock.n_started):
        if state.lists[STARTED, at] == job:
            remove(state.lists[STARTED], at, clock.n_started)
            clock.n_started -= 1
            break
    record.start = record.end = record.event = record.expected_end = np.nan
    record.reserved = np.inf
    record.speed = 1.0
    enqueue(state, job)


@inlined
def _end_first(state: Events) -> None:
    """End the running job whose time has come, and let those that waited for it come."""
    clock = state.clock[0]
    job = _pop_event(state)
    hold(state, job, -1)
    if state.rules[0].track_running:
        remove(state.lists[RUNNING], _running_place(state, job, clock.n_running), clock.n_running)
    clock.n_running -= 1
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
def _is_due(state: Events, kind: int) -> bool:
    """Whether the event that heads the heap is to happen now and is an end (kind 0), or a release (`KIND`)."""
    if state.clock[0].n_events == 0:
        return False
    record = state.jobs[state.lists[EVENTS, 0]]
    return bool(record.event == state.clock[0].now and record.event_rank & KIND == kind)


@inlined
def _next_submission(state: Events) -> float:
    """Time at which a job that waits for no other is submitted next; ``clock.next_submission`` then is that job."""
    clock = state.clock[0]
    while clock.next_submission < state.jobs.size and state.jobs[clock.next_submission].preceding != NOBODY:
        clock.next_submission += 1
    return state.jobs[clock.next_submission].submit if clock.next_submission < state.jobs.size else np.inf


@inlined
def _take_arrival(state: Events) -> bool:
    """Let one job join the queue whose time is now, the lowest in number; return whether there was one."""
    clock = state.clock[0]
    submitted = _next_submission(state) == clock.now
    released = _is_due(state, KIND)
    if released and not (submitted and clock.next_submission < state.lists[EVENTS, 0]):
        enqueue(state, _pop_event(state))
    elif submitted:
        clock.next_submission += 1
        enqueue(state, clock.next_submission - 1)
    return released or submitted


@helper()
def _take_one(state: Events) -> None:
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


@inlined
def _next_time(state: Events) -> float:
    """Return when something happens next, or a pass is due."""
    clock = state.clock[0]
    time = _next_submission(state)
    if clock.n_events > 0:
        time = min(time, state.jobs[state.lists[EVENTS, 0]].event)
    if clock.n_queued > 0 or time < np.inf:
        # Where nobody waits and nobody comes or ends there is nothing to be woken for.
        time = min(time, clock.wake, next_change(state))
    return time


@inlined
def _happen(state: Events) -> None:
    """Let happen what is due now: all of it, or one thing."""
    has_changed = next_change(state) <= state.clock[0].now
    if state.rules[0].event_order == BATCHED:
        # All ends, then changes of the machine, then all arrivals.
        while _is_due(state, 0):
            _end_first(state)
        if has_changed:
            change_machine(state)
        while _take_arrival(state):
            pass
    elif has_changed:
        change_machine(state)
    else:
        _take_one(state)


@kernel(int64(STATE, float64), forceinline=True)
def advance(state: Events, until: float) -> int:
    """Go on to the next time at which a scheduling pass is due, but not beyond ``until``.

    Returns ``HAPPENED``, or ``LATER`` or ``NOTHING_LEFT`` where the time stays as it is.
    """
    clock = state.clock[0]
    clock.n_started = 0
    clock.n_ended = 0
    clock.n_joined = 0
    time = _next_time(state)
    if time == np.inf:
        return NOTHING_LEFT
    if time > until:
        return LATER
    clock.now = time
    if clock.wake <= time:
        clock.wake = np.inf
    _happen(state)
    if clock.n_joined > FEW:
        settle_queue(state)
    return HAPPENED
