"""List scheduling on a pool, with and without backfilling."""

import numpy as np
from numba import boolean, float64, int64, void

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.events import (
    HAPPENED,
    advance,
    change_machine,
    distrust_plans,
    next_machine_change,
    start_job,
)
from allocopt.simulator.kernels.in_order import (
    EASY,
    NO_ROOM,
    OVER,
    ROOM,
    is_blocked,
    leave_waiting,
    look_for_room,
    must_pause,
    next_job,
    reserve_room,
    start_in_order,
    start_in_room,
)
from allocopt.simulator.kernels.look_ahead import begin_ahead, fits_ahead, next_downtime_end, release_ahead, shadow_time
from allocopt.simulator.kernels.queue import (
    dequeue,
    end_of_queue,
    is_untidy,
    next_block,
    place_by_rank,
    place_in_queue,
    queued,
    sort_list,
    tidy_queue,
    tighten,
)
from allocopt.simulator.kernels.scoring import planned_run
from allocopt.simulator.rules import Backfill, OrderKind
from allocopt.simulator.state import BLOCK, CANDIDATES, EXTRA, FREE, NOBODY, QUEUE, RUNNING, STATE, State

AGEING, FAIR_SHARE = int(OrderKind.AGEING), int(OrderKind.FAIR_SHARE)
NONE = int(Backfill.NONE)


@inlined
def fits(state: State, job: int, row: int) -> bool:
    """Whether the request of a job fits into the units of a row, ``FREE`` or ``EXTRA``."""
    for resource in range(state.units.shape[1]):
        if state.request[job, resource] > state.units[row, resource]:
            return False
    return True


@begin_ahead.answer(State)
@inlined
def _begin_ahead(state: State, job: int) -> None:
    """Set the spare units to the units that are free now."""
    for resource in range(state.units.shape[1]):
        state.units[EXTRA, resource] = state.units[FREE, resource]


@release_ahead.answer(State)
@inlined
def _release_ahead(state: State, running: int, job: int) -> None:
    """Add the units of a running job to the spare units."""
    for resource in range(state.units.shape[1]):
        state.units[EXTRA, resource] += state.request[running, resource]


@fits_ahead.answer(State)
@inlined
def _fits_ahead(state: State, job: int, time: float) -> bool:
    """Whether the request of a job fits into the spare units."""
    return fits(state, job, EXTRA)


@next_machine_change.answer(State)
@inlined
def _next_machine_change(state: State) -> float:
    """Return infinity, as a pool has no downtimes."""
    return np.inf


@change_machine.answer(State)
@inlined
def _change_machine(state: State) -> None:
    """Do nothing, as a pool has no downtimes."""


@next_downtime_end.answer(State)
@inlined
def _next_downtime_end(state: State, time: float) -> float:
    """Return infinity, as a pool has no downtimes."""
    return np.inf


@inlined
def find_shadow(state: State, head: int) -> None:
    """Find when the head can start by the estimates, and the units that are spare after all ends at that time."""
    state.clock[0].shadow = shadow_time(state, head)
    for resource in range(state.units.shape[1]):
        state.units[EXTRA, resource] -= state.request[head, resource]


@inlined
def _outlasts_shadow(state: State, job: int) -> bool:
    return bool(state.clock[0].now + planned_run(state, job) > state.clock[0].shadow)


@inlined
def keeps_shadow(state: State, job: int) -> bool:
    """Whether a job fits now and does not delay the head: it ends by the shadow time, or fits into spare units."""
    return fits(state, job, FREE) and (not _outlasts_shadow(state, job) or fits(state, job, EXTRA))


@inlined
def take_spare(state: State, job: int) -> None:
    """Subtract the units that a job will hold at the shadow time from the spare units."""
    if _outlasts_shadow(state, job):
        for resource in range(state.units.shape[1]):
            state.units[EXTRA, resource] -= state.request[job, resource]


@inlined
def _may_backfill(state: State, job: int) -> bool:
    return keeps_shadow(state, job) if state.rules[0].backfill == EASY else fits(state, job, FREE)


@helper()
def _next_indexed(state: State, column: int) -> int:
    jobs, end = state.lists[QUEUE], end_of_queue(state)
    n_blocks = (end - 1) // BLOCK + 1
    block = next_block(state, column // BLOCK, n_blocks)
    while block < n_blocks:
        for at in range(max(column, block * BLOCK), min(end, (block + 1) * BLOCK)):
            if jobs[at] >= 0 and _may_backfill(state, jobs[at]):
                return at
        tighten(state, block)
        block = next_block(state, block + 1, n_blocks)
    return end


@inlined
def _next_column(state: State, column: int) -> int:
    """Return the first column of the queue, from ``column`` on, whose job may be backfilled, or the queue's end."""
    if state.clock[0].indexed:
        return _next_indexed(state, column)
    jobs, end = state.lists[QUEUE], end_of_queue(state)
    while column < end and not _may_backfill(state, jobs[column]):
        column += 1
    return column


@helper()
def _next_candidate(state: State) -> int:
    """Return the next job in the order of backfilling that may be backfilled, ``NOBODY`` if there is none."""
    clock, head = state.clock[0], queued(state, 0)
    while clock.looked_at < clock.n_queued:
        job = state.lists[CANDIDATES, clock.looked_at]
        if job != head and _may_backfill(state, job):
            return int(job)
        clock.looked_at += 1
    return NOBODY


@next_job.answer(State)
@inlined
def _next_job(state: State) -> int:
    """Return the head of the queue; if a head did not fit, the next job behind it that may be backfilled."""
    clock, rules = state.clock[0], state.rules[0]
    if not clock.is_blocked:
        return queued(state, 0) if clock.n_queued > 0 else NOBODY
    if rules.backfill == NONE or clock.n_queued < 2:
        return NOBODY
    if rules.own_backfill_order:
        return _next_candidate(state)
    if state.units[FREE, 0] <= 0:
        return NOBODY
    clock.looked_at = _next_column(state, clock.first + clock.looked_at) - clock.first
    return queued(state, clock.looked_at) if clock.looked_at < clock.n_queued + clock.n_gone else NOBODY


@must_pause.answer(State)
@inlined
def _must_pause(state: State) -> bool:
    """Whether a start has changed the order of the queue: pause then, because sorting many jobs takes long."""
    return bool(state.clock[0].unfinished)


@look_for_room.answer(State)
@inlined
def _look_for_room(state: State, job: int) -> int:
    """Return whether the head fits; jobs behind it have been checked by `_next_job`."""
    return ROOM if state.clock[0].is_blocked or fits(state, job, FREE) else NO_ROOM


@start_in_room.answer(State)
@inlined
def _start_in_room(state: State, job: int) -> None:
    """Start the head, or a job behind it, which takes spare units if it runs beyond the shadow time."""
    clock, rules = state.clock[0], state.rules[0]
    order, at = rules.order, 0
    if clock.is_blocked:
        if rules.backfill == EASY:
            take_spare(state, job)
        at = clock.looked_at
        if rules.own_backfill_order:
            order, at = rules.backfill_order, place_in_queue(state, job)
    dequeue(state, at)
    start_job(state, job)
    clock.unfinished = order == FAIR_SHARE


@is_blocked.answer(State)
@inlined
def _is_blocked(state: State, job: int) -> bool:
    """Whether the head of the queue did not fit."""
    return bool(state.clock[0].is_blocked)


@reserve_room.answer(State)
@inlined
def _reserve_room(state: State, job: int) -> None:
    """Find the shadow time of the head, if other jobs wait that could delay it."""
    if state.clock[0].n_queued > 1:
        find_shadow(state, job)


@leave_waiting.answer(State)
@inlined
def _leave_waiting(state: State, job: int) -> None:
    """Continue with the jobs behind the head."""
    _look_behind_head(state)


@inlined
def _look_behind_head(state: State) -> None:
    """Begin backfilling behind the jobs that have already been examined."""
    clock, rules = state.clock[0], state.rules[0]
    clock.is_blocked = 1
    clock.looked_at = 0 if rules.own_backfill_order else max(1, clock.examined)
    if rules.own_backfill_order and rules.backfill_order >= AGEING and clock.n_queued > 1:
        sort_list(state, CANDIDATES, rules.backfill_order, 0)


@inlined
def backfill_queue(state: State) -> None:
    """Start jobs behind the head of the queue that may be backfilled; the state must have a shadow time."""
    _look_behind_head(state)
    start_in_order(state)


@distrust_plans.answer(State)
@inlined
def _distrust_plans(state: State) -> None:
    """Make the next pass examine all jobs, because the shadow time has moved."""
    state.clock[0].examined = 0


@inlined
def is_overdue(state: State) -> bool:
    """Whether a job runs beyond its estimate."""
    if not state.rules[0].track_running or state.clock[0].n_running == 0:
        return False
    return bool(state.jobs[state.lists[RUNNING, 0]].expected_end <= state.clock[0].now)


@kernel(void(STATE), forceinline=True)
def list_pass(state: State) -> None:
    """Start jobs from the head of the queue while they fit, then backfill others if the rules require it.

    The first ``examined`` jobs cannot start before a job ends, because free and spare units only decrease until then.
    So they are not examined again, except if a job runs beyond its estimate, which moves the shadow time.
    """
    clock, rules = state.clock[0], state.rules[0]
    if not clock.unfinished:
        if rules.order >= AGEING or is_overdue(state):
            clock.examined = 0
        clock.is_blocked = clock.examined > 0
        if not clock.is_blocked and is_untidy(state):
            tidy_queue(state)
    elif clock.is_blocked and not rules.own_backfill_order:
        sort_list(state, QUEUE, rules.order, 1)
    clock.unfinished = 0
    if clock.is_blocked:
        _look_behind_head(state)
    elif rules.order >= AGEING:
        sort_list(state, QUEUE, rules.order, 0)
    if start_in_order(state) == OVER and clock.is_blocked:
        if rules.backfill == NONE:
            clock.examined = 1
        elif clock.n_queued > 1:
            clock.examined = clock.n_queued + clock.n_gone


@inlined
def _exchange_spare(state: State, spare: IntArray) -> None:
    for resource in range(spare.size):
        state.units[EXTRA, resource], spare[resource] = spare[resource], state.units[EXTRA, resource]


@kernel(float64(STATE, int64, int64[::1]))
def shadow_of(state: State, job: int, spare: IntArray) -> float:
    """Return the shadow time of a job, and write the units that are spare then into ``spare``.

    The shadow time and the spare units in ``state`` remain as they are.
    """
    clock = state.clock[0]
    kept = clock.shadow
    _exchange_spare(state, spare)
    find_shadow(state, job)
    _exchange_spare(state, spare)
    found, clock.shadow = clock.shadow, kept
    return float(found)


@kernel(int64(STATE, int64, float64, int64[::1]))
def next_backfillable(state: State, after: int, shadow: float, spare: IntArray) -> int:
    """Return the first waiting job behind job ``after`` that EASY would backfill, ``NOBODY`` if there is none.

    All jobs are behind ``NOBODY``. The queue must be in the order of ranks.
    """
    clock = state.clock[0]
    if after == NOBODY:
        if is_untidy(state):
            tidy_queue(state)
        column = clock.first
    else:
        end = end_of_queue(state)
        column = place_by_rank(state, QUEUE, clock.first, end, after)
        column += column < end and state.lists[QUEUE, column] == after
    kept, clock.shadow = clock.shadow, shadow
    _exchange_spare(state, spare)
    column = _next_column(state, column)
    _exchange_spare(state, spare)
    clock.shadow = kept
    return state.lists[QUEUE, column] if column < end_of_queue(state) else NOBODY


@inlined
def _is_in_vain(state: State) -> bool:
    """Whether a pass would sort the queue, but no waiting job fits."""
    clock = state.clock[0]
    if clock.unfinished or state.rules[0].order < AGEING:
        return False
    for at in range(clock.n_queued):
        if fits(state, queued(state, at), FREE):
            return False
    return True


@kernel(int64(STATE, int64))
def run(state: State, work: int) -> int:
    """Simulate until no event is left, or about ``work`` is done; return how much was done."""
    clock = state.clock[0]
    clock.work = 0
    while clock.work < work:
        if not clock.unfinished and advance(state, np.inf) != HAPPENED:
            return int(clock.work)
        clock.work += 1 + clock.n_queued
        # Skip a pass that could only sort the queue: nothing reads its order before the next pass.
        if not _is_in_vain(state):
            list_pass(state)
    return work


@kernel(boolean(STATE, int64))
def start_waiting(state: State, job: int) -> bool:
    """Start a job if it waits and fits; return whether it did."""
    place = place_in_queue(state, job)
    if place < 0 or not fits(state, job, FREE):
        return False
    dequeue(state, place)
    start_job(state, job)
    return True
