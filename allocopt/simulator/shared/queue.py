"""The queue of shared nodes: lines of waiting jobs, and a heap of the lines that a pass examines."""

import numpy as np

from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.kernels.events import enqueue, settle_queue
from allocopt.simulator.kernels.scoring import SCORED, earliest_release, look_over_queue, score_of
from allocopt.simulator.rules import OrderKind
from allocopt.simulator.shared.state import BACKFILLING, Shared
from allocopt.simulator.state import NOBODY

ARRIVAL, AGEING, FAIR_SHARE = int(OrderKind.ARRIVAL), int(OrderKind.AGEING), int(OrderKind.FAIR_SHARE)


@inlined
def _order(s: Shared) -> int:
    """Return the kind of order in which this part of a pass examines jobs."""
    return int(s.rules[0].backfill_order if s.clock[0].part == BACKFILLING else s.rules[0].order)


@inlined
def _key(s: Shared, line: int) -> float:
    """Return the sorting key of the next job of a line; the lowest is first."""
    job, is_backfilling = s.jobs[s.queue[line].looked_at], s.clock[0].part == BACKFILLING
    kind, value = _order(s), job.backfill_value if is_backfilling else job.order_value
    if kind == AGEING:
        return -value * (s.clock[0].now - job.release)
    if kind == SCORED:
        wait, number = s.clock[0].now - job.release, s.queue[line].looked_at
        return score_of(s.scores, int(is_backfilling), number, job.estimate, wait)
    if kind == FAIR_SHARE:
        # The dominant share of its user: the largest share over all resources (Ghodsi et al., NSDI 2011).
        value = 0.0
        for resource in range(s.total.size):
            if s.total[resource] > 0:
                value = max(value, s.held_by[job.user, resource] / s.total[resource])
    return value


@inlined
def _is_ahead(s: Shared, a: int, b: int) -> bool:
    """Whether the next job of line a is before that of line b."""
    x, y = s.queue[a], s.queue[b]
    if x.tier != y.tier:
        return bool(x.tier > y.tier)
    if x.key != y.key:
        return x.key < y.key
    return x.looked_at < y.looked_at


@helper()
def _sink_line(s: Shared, at: int) -> None:
    """Restore the heap of lines below a position."""
    heap, size = s.waiting[1], s.clock[0].n_left
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _is_ahead(s, heap[child + 1], heap[child]):
            child += 1
        if _is_ahead(s, heap[at], heap[child]):
            break
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@earliest_release.answer(Shared)
@inlined
def _earliest_release(s: Shared) -> float:
    """Return when the earliest of the waiting jobs joined the queue; it is the first in its line."""
    earliest = np.inf
    for place in range(s.clock[0].n_waiting):
        first = s.queue[s.waiting[0, place]].first_waiting
        if first >= 0:
            earliest = min(earliest, s.jobs[first].release)
    return float(earliest)


@helper()
def order_lines(s: Shared) -> None:
    """Compute the keys of the remaining lines, and build the heap."""
    s.clock[0].work -= s.clock[0].n_left
    if _order(s) == SCORED:
        look_over_queue(s, int(s.clock[0].part == BACKFILLING))
    for place in range(s.clock[0].n_left):
        line = s.waiting[1, place]
        s.queue[line].key = _key(s, line)
    for place in range(s.clock[0].n_left // 2 - 1, -1, -1):
        _sink_line(s, place)


@helper()
def begin_part(s: Shared, part: int) -> None:
    """Begin a part of a pass with the first job of each line; `BACKFILLING` leaves out lines of refused shapes."""
    clock = s.clock[0]
    clock.part = part
    clock.n_left = 0
    for place in range(clock.n_waiting):
        line = s.waiting[0, place]
        about = s.queue[line]
        if part == BACKFILLING and (about.first_waiting < 0 or s.shapes[about.shape].is_refused):
            continue
        about.looked_at = about.first_waiting
        about.passed = NOBODY
        s.waiting[1, clock.n_left] = line
        clock.n_left += 1
    order_lines(s)


@inlined
def take_from_queue(s: Shared, line: int) -> None:
    """Remove the examined job of a line from the queue, and go on to the next one."""
    about = s.queue[line]
    s.clock[0].n_queued -= 1
    after = s.jobs[about.looked_at].next_waiting
    if about.passed < 0:
        about.first_waiting = after
    else:
        s.jobs[about.passed].next_waiting = after
    if after < 0:
        about.last_waiting = about.passed
    about.looked_at = after


@inlined
def put_in_place(s: Shared, line: int, n_started: int) -> None:
    """Restore the heap after the next job of its first line has changed; ``n_started`` is above 0 after a start."""
    clock = s.clock[0]
    if s.queue[line].looked_at >= 0:
        s.queue[line].key = _key(s, line)
    else:
        clock.n_left -= 1
        s.waiting[1, 0] = s.waiting[1, clock.n_left]
    if n_started > 0 and _order(s) == FAIR_SHARE:
        # The start has changed the share of a user, and with it the keys of other lines.
        order_lines(s)
    else:
        _sink_line(s, 0)


@inlined
def _stands_before(s: Shared, a: int, b: int) -> bool:
    """Whether job a is before job b of the same line."""
    kind = s.rules[0].order
    if kind in (AGEING, SCORED):
        return bool(s.jobs[a].release < s.jobs[b].release or (s.jobs[a].release == s.jobs[b].release and a < b))
    x = 0.0 if kind == FAIR_SHARE else s.jobs[a].order_value
    y = 0.0 if kind == FAIR_SHARE else s.jobs[b].order_value
    return bool(x < y or (x == y and a < b))


@enqueue.answer(Shared)
@inlined
def _enqueue(s: Shared, job: int) -> None:
    """Insert a job into its line."""
    clock, record = s.clock[0], s.jobs[job]
    line = s.queue[record.line]
    if s.rules[0].order == ARRIVAL:
        record.order_value = clock.n_arrived
    if s.rules[0].backfill_order == ARRIVAL:
        record.backfill_value = clock.n_arrived
    record.release = clock.now
    record.next_waiting = NOBODY
    clock.n_arrived += 1
    clock.n_joined += 1
    clock.n_queued += 1
    if line.first_waiting < 0:
        s.waiting[0, clock.n_waiting] = record.line
        clock.n_waiting += 1
        line.first_waiting = line.last_waiting = job
    elif _stands_before(s, line.last_waiting, job):
        s.jobs[line.last_waiting].next_waiting = job
        line.last_waiting = job
    elif _stands_before(s, job, line.first_waiting):
        record.next_waiting = line.first_waiting
        line.first_waiting = job
    else:
        at = line.first_waiting
        while _stands_before(s, s.jobs[at].next_waiting, job):
            at = s.jobs[at].next_waiting
        record.next_waiting = s.jobs[at].next_waiting
        s.jobs[at].next_waiting = job


@settle_queue.answer(Shared)
@inlined
def _settle_lines(s: Shared) -> None:
    """Do nothing, as jobs are inserted into their lines at the right position."""
