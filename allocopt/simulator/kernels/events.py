"""Events of a simulation: jobs are submitted, start, change speed, end, and are requeued.

A binary heap holds the next events: the ends of running jobs, and the releases of jobs whose preceding job has ended.
Jobs without a preceding job are taken in the order of submission. A state is any named tuple with the arrays of
`Events`. Each kind of state answers the questions below: how jobs hold resources, how the queue is stored, and how the
machine changes.
"""

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import helper, inlined, kernel, question
from allocopt.simulator.kernels.scoring import count_waiting, learn_of_end, learn_of_start, learn_of_stop, planned_run
from allocopt.simulator.rules import EventOrder
from allocopt.simulator.state import ENDED, NOBODY, RUNNING, STARTED, STATE, Event, Events


@question
def hold(state: Events, job: int, sign: int) -> None:
    """Take the resources that a job holds while it runs (sign 1), or free them (sign -1)."""


@question
def enqueue(state: Events, job: int) -> None:
    """Add a job to the queue."""


@question
def settle_queue(state: Events) -> None:
    """Sort the queue after more than `MOST_INSERTED` jobs have joined it at once."""


@question
def next_machine_change(state: Events) -> float:
    """Return the time at which nodes next fail or come back; infinite if they never do."""
    raise NotImplementedError


@question
def change_machine(state: Events) -> None:
    """Process the nodes that fail or come back now."""


@question
def distrust_plans(state: Events) -> None:
    """Discard plans that depend on expected ends of running jobs, because some of these have changed."""


MOST_INSERTED = 8  # jobs inserted in order, one by one, when several join at once; later ones wait for `settle_queue`


@inlined
def insert(jobs: IntArray, at: int, end: int, job: int) -> None:
    """Insert a job at index ``at`` of a list that ends before ``end``."""
    for i in range(end, at, -1):
        jobs[i] = jobs[i - 1]
    jobs[at] = job


@inlined
def remove(jobs: IntArray, at: int, end: int) -> None:
    """Remove the job at index ``at`` from a list that ends before ``end``."""
    for i in range(at, end - 1):
        jobs[i] = jobs[i + 1]


@inlined
def _precedes(event: Event, time: float, rank: int) -> bool:
    """Whether an event comes before another one with the given time and rank."""
    return event.time < time or (event.time == time and event.rank < rank)


@inlined
def _put_event(state: Events, at: int, time: float, rank: int, job: int) -> None:
    event = state.events[at]
    event.time, event.rank, event.job = time, rank, job
    state.jobs[job].event_place = at


@inlined
def _put_above(state: Events, at: int, time: float, rank: int, job: int) -> None:
    """Put an event at a position of the heap, or above it: events that it precedes move down."""
    while at > 0:
        above = state.events[(at - 1) // 2]
        if _precedes(above, time, rank):
            break
        _put_event(state, at, above.time, above.rank, above.job)
        at = (at - 1) // 2
    _put_event(state, at, time, rank, job)


@inlined
def _put_below(state: Events, at: int, time: float, rank: int, job: int) -> None:
    """Put an event at a position of the heap, or below it: events that precede it move up."""
    size = state.clock[0].n_events
    while 2 * at + 1 < size:
        child = 2 * at + 1
        below = state.events[child]
        if child + 1 < size and _precedes(state.events[child + 1], below.time, below.rank):
            child += 1
            below = state.events[child]
        if not _precedes(below, time, rank):
            break
        _put_event(state, at, below.time, below.rank, below.job)
        at = child
    _put_event(state, at, time, rank, job)


@inlined
def _push_event(state: Events, time: float, rank: int, job: int) -> None:
    clock = state.clock[0]
    clock.n_events += 1
    _put_above(state, clock.n_events - 1, time, rank, job)


@helper()
def _replace_event(state: Events, at: int, time: float, rank: int, job: int) -> None:
    """Replace the event at a position of the heap; the new one may move up or down."""
    above = state.events[max(0, at - 1) // 2]
    if at > 0 and not _precedes(above, time, rank):
        _put_above(state, at, time, rank, job)
    else:
        _put_below(state, at, time, rank, job)


@inlined
def _remove_event(state: Events, at: int) -> None:
    """Remove the event at a position of the heap and fill the gap with the last one."""
    clock = state.clock[0]
    clock.n_events -= 1
    last = state.events[clock.n_events]
    if at < clock.n_events:
        _replace_event(state, at, last.time, last.rank, last.job)


@inlined
def _pop_event(state: Events) -> int:
    """Remove the event that comes first; return its job."""
    clock, job = state.clock[0], state.events[0].job
    clock.n_events -= 1
    if clock.n_events > 0:
        last = state.events[clock.n_events]
        _put_below(state, 0, last.time, last.rank, last.job)
    return int(job)


BATCHED = int(EventOrder.BATCHED)

KIND_STEP = 1 << 40
"""Events of the same time are ordered by rank. A rank is the kind of the event, a multiple of this number, plus its
turn within the kind. The turn of an end is the number of jobs started before that job; the turn of a release is the
number of the job."""
ON_TIME, OFF_TIME = 0, 2 * KIND_STEP  # kinds of ends: at the expected end, and earlier or later
RELEASE = (3 * KIND_STEP, KIND_STEP)
"""Kind of a release, by `EventOrder`. A release is the arrival of a job whose preceding job has ended. Its kind is an
odd multiple of `KIND_STEP`, that of an end an even one."""
_END_BIT, _RELEASE_BIT = 0, KIND_STEP  # the bit ``KIND_STEP`` of the rank of an end, and of a release

NOTHING_LEFT, LATER, HAPPENED = 0, 1, 2  # results of `advance`: no event is left; the next is too late; one happened


@inlined
def _running_place(state: Events, job: int, n: int) -> int:
    """Return where a job belongs among the first ``n`` running jobs, which are sorted by expected end, then start."""
    first, end = 0, n
    record = state.jobs[job]
    while first < end:
        middle = (first + end) // 2
        other = state.jobs[state.lists[RUNNING, middle]]
        is_before = other.expected_end < record.expected_end
        if other.expected_end == record.expected_end:
            is_before = other.event_rank % KIND_STEP < record.event_rank % KIND_STEP
        if is_before:
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def _join(state: Events, job: int) -> None:
    """Let a job join the queue."""
    enqueue(state, job)
    count_waiting(state, job, 1)


@inlined
def start_job(state: Events, job: int) -> None:
    """Start, at speed 1, a job that has left the queue."""
    clock, record = state.clock[0], state.jobs[job]
    record.start = record.changed = clock.now
    record.end = clock.now + min(record.run, record.limit)
    record.expected_end = clock.now + planned_run(state, job)
    record.event_rank = clock.n_begun + (ON_TIME if record.end == record.expected_end else OFF_TIME)
    record.remaining = record.run
    hold(state, job, 1)
    learn_of_start(state, job)
    if state.rules[0].track_running:
        insert(state.lists[RUNNING], _running_place(state, job, clock.n_running), clock.n_running, job)
    _push_event(state, record.end, record.event_rank, job)
    state.lists[STARTED, clock.n_started] = job
    clock.n_started += 1
    clock.n_begun += 1
    clock.n_running += 1


@kernel(void(STATE, int64, float64))
def change_speed(state: Events, job: int, speed: float) -> None:
    """Change the speed of a running job from now on; in seconds of work per second."""
    record = state.jobs[job]
    now = state.clock[0].now
    record.remaining = max(0.0, record.remaining - (now - record.changed) * record.speed)
    record.changed = now
    record.speed = speed
    needed = record.remaining / speed if speed > 0 else np.inf
    record.end = min(now + needed, record.start + record.limit)
    record.event_rank = record.event_rank % KIND_STEP + (ON_TIME if record.end == record.expected_end else OFF_TIME)
    _replace_event(state, record.event_place, record.end, record.event_rank, job)


@kernel(void(STATE, int64))
def requeue(state: Events, job: int) -> None:
    """Stop a running job and add it to the queue again, as if it were submitted now; the work it has done is lost."""
    clock, record = state.clock[0], state.jobs[job]
    record.requeues += 1
    record.lost_s += clock.now - record.start
    _remove_event(state, record.event_place)
    hold(state, job, -1)
    learn_of_stop(state, job)
    if state.rules[0].track_running:
        remove(state.lists[RUNNING], _running_place(state, job, clock.n_running), clock.n_running)
    clock.n_running -= 1
    for at in range(clock.n_started):
        if state.lists[STARTED, at] == job:
            remove(state.lists[STARTED], at, clock.n_started)
            clock.n_started -= 1
            break
    record.start = record.end = record.expected_end = np.nan
    record.reserved = np.inf
    record.speed = 1.0
    _join(state, job)


@inlined
def _end_next(state: Events) -> None:
    """End the job that heads the heap, and schedule the releases of the jobs that depend on it."""
    clock = state.clock[0]
    job = _pop_event(state)
    hold(state, job, -1)
    learn_of_end(state, job)
    if state.rules[0].track_running:
        remove(state.lists[RUNNING], _running_place(state, job, clock.n_running), clock.n_running)
    clock.n_running -= 1
    state.lists[ENDED, clock.n_ended] = job
    clock.n_ended += 1
    dependent = state.jobs[job].dependent
    while dependent != NOBODY:
        # It joins the queue after the think time of its user, but not before it is submitted.
        record = state.jobs[dependent]
        release = max(record.submit, clock.now + record.think)
        record.event_rank = RELEASE[state.rules[0].event_order] + dependent
        _push_event(state, release, record.event_rank, dependent)
        dependent = record.next_dependent


@inlined
def _is_due(state: Events, kind_bit: int) -> bool:
    """Whether the head of the heap is due now and is an end (``_END_BIT``), or a release (``_RELEASE_BIT``)."""
    if state.clock[0].n_events == 0:
        return False
    event = state.events[0]
    return bool(event.time == state.clock[0].now and event.rank & KIND_STEP == kind_bit)


@inlined
def _next_submission(state: Events) -> float:
    """Return when the next job without a preceding job is submitted; set ``clock.next_submission`` to that job."""
    clock = state.clock[0]
    while clock.next_submission < state.jobs.size and state.jobs[clock.next_submission].preceding != NOBODY:
        clock.next_submission += 1
    return state.jobs[clock.next_submission].submit if clock.next_submission < state.jobs.size else np.inf


@inlined
def _process_arrival(state: Events) -> bool:
    """Add to the queue the lowest-numbered job that is submitted or released now; return whether there is one."""
    clock = state.clock[0]
    submitted = _next_submission(state) == clock.now
    released = _is_due(state, _RELEASE_BIT)
    if released and not (submitted and clock.next_submission < state.events[0].job):
        _join(state, _pop_event(state))
    elif submitted:
        clock.next_submission += 1
        _join(state, clock.next_submission - 1)
    return released or submitted


@helper()
def _process_one(state: Events) -> None:
    """Process one event that is due now: an arrival if there is one, otherwise the end of the job started first.

    Before it, all jobs that end now as expected free their resources, because a plan made from estimates counts these
    resources as free from now on. pyss and the schedules published with Gaussier et al. (SC'15) do the same.
    """
    first_on_time = KIND_STEP
    while _is_due(state, _END_BIT) and state.events[0].rank < KIND_STEP:
        first_on_time = min(first_on_time, state.events[0].rank)
        _end_next(state)
    if _process_arrival(state) or not _is_due(state, _END_BIT):
        return
    if state.events[0].rank % KIND_STEP < first_on_time:
        _end_next(state)


@inlined
def _next_time(state: Events) -> float:
    """Return the time of the next event or requested pass; infinite if there is none."""
    clock = state.clock[0]
    time = _next_submission(state)
    if clock.n_events > 0:
        time = min(time, state.events[0].time)
    if clock.n_queued > 0 or time < np.inf:
        # If no job waits, arrives or ends, a wake-up has no effect.
        time = min(time, clock.wake)
    if clock.n_queued + clock.n_running > 0 or time < np.inf:
        time = min(time, next_machine_change(state))
    return time


@inlined
def _process_due(state: Events) -> None:
    """Process the events that are due now: all of them if they are batched, otherwise one."""
    has_changed = next_machine_change(state) <= state.clock[0].now
    if state.rules[0].event_order == BATCHED:
        # All ends, then changes of the machine, then all arrivals (docs/clusters.md).
        while _is_due(state, _END_BIT):
            _end_next(state)
        if has_changed:
            change_machine(state)
        while _process_arrival(state):
            pass
    elif has_changed:
        change_machine(state)
    else:
        _process_one(state)


@helper()
def _correct_expected_ends(state: Events) -> None:
    """Extend the expected ends of jobs beyond their predicted run times to their estimates."""
    clock, running, at, has_changed = state.clock[0], state.lists[RUNNING], 0, False
    while at < clock.n_running and state.jobs[running[at]].expected_end <= clock.now:
        job = running[at]
        record = state.jobs[job]
        later = record.start + record.estimate
        if later <= clock.now:
            # It has reached its estimate, too.
            at += 1
            continue
        remove(running, at, clock.n_running)
        record.expected_end = later
        insert(running, _running_place(state, job, clock.n_running - 1), clock.n_running - 1, job)
        has_changed = True
    if has_changed:
        distrust_plans(state)


@kernel(int64(STATE, float64), forceinline=True)
def advance(state: Events, until: float) -> int:
    """Advance the clock to the next scheduling point, but not beyond ``until``.

    Returns ``HAPPENED`` if there were events or a wake-up at that time. Otherwise the clock stays as it is, and the
    result is ``LATER`` if the next scheduling point is after ``until``, or ``NOTHING_LEFT`` if there is none.
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
    _process_due(state)
    if state.rules[0].predicts:
        _correct_expected_ends(state)
    if clock.n_joined > MOST_INSERTED:
        settle_queue(state)
    return HAPPENED
