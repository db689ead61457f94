"""List scheduling with and without backfilling."""

import numpy as np
from numba import boolean, float64, int64, void

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.look_ahead import begin_ahead, end_ahead, fits_ahead, shadow_time
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
from allocopt.simulator.rules import Backfill, OrderKind
from allocopt.simulator.state import BLOCK, CANDIDATES, EXTRA, FREE, NOBODY, QUEUE, RUNNING, STATE, State

AGEING, FAIR_SHARE = int(OrderKind.AGEING), int(OrderKind.FAIR_SHARE)
NONE, EASY = int(Backfill.NONE), int(Backfill.EASY)
_BACKFILLING = 2  # part of a pass; the first is to start jobs from the head of the queue


@inlined
def fits(state: State, job: int, row: int) -> bool:
    """Whether a job asks for no more units than stand in a row, ``FREE`` or ``EXTRA``."""
    for resource in range(state.units.shape[1]):
        if state.request[job, resource] > state.units[row, resource]:
            return False
    return True


@inlined
def _start_from_head(state: State) -> bool:
    """Start jobs from the head of the queue while they fit; return whether it has come to its end."""
    order = state.rules[0].order
    if order >= AGEING:
        sort_list(state, QUEUE, order, 0)
    while state.clock[0].n_queued > 0 and fits(state, queued(state, 0), FREE):
        job = queued(state, 0)
        dequeue(state, 0)
        start_job(state, job)
        if order == FAIR_SHARE:
            # Every start changes the order, and it takes long to put many jobs in order.
            return False
    return True


@begin_ahead.answer(State)
@inlined
def _begin_ahead(state: State, job: int) -> None:
    """Let what is spare be what is free now."""
    for resource in range(state.units.shape[1]):
        state.units[EXTRA, resource] = state.units[FREE, resource]


@end_ahead.answer(State)
@inlined
def _end_ahead(state: State, running: int, job: int) -> None:
    """Add what a running job holds to what is spare."""
    for resource in range(state.units.shape[1]):
        state.units[EXTRA, resource] += state.request[running, resource]


@fits_ahead.answer(State)
@inlined
def _fits_ahead(state: State, job: int) -> bool:
    """Whether a job asks for no more than is spare."""
    return fits(state, job, EXTRA)


@inlined
def find_shadow(state: State, head: int) -> None:
    """Find when the head can start by the estimates, and what is spare at that time, once all that end then have."""
    state.clock[0].shadow = shadow_time(state, head)
    for resource in range(state.units.shape[1]):
        state.units[EXTRA, resource] -= state.request[head, resource]


@inlined
def _outlasts_shadow(state: State, job: int) -> bool:
    return bool(state.clock[0].now + state.jobs[job].estimate > state.clock[0].shadow)


@inlined
def keeps_shadow(state: State, job: int) -> bool:
    """Whether a job fits now and does not delay the head: it ends before the shadow time, or needs what is spare."""
    return fits(state, job, FREE) and (not _outlasts_shadow(state, job) or fits(state, job, EXTRA))


@inlined
def take_spare(state: State, job: int) -> None:
    """Take what a job will hold at the shadow time from what is spare then."""
    if _outlasts_shadow(state, job):
        for resource in range(state.units.shape[1]):
            state.units[EXTRA, resource] -= state.request[job, resource]


@inlined
def _may_backfill(state: State, job: int) -> bool:
    return keeps_shadow(state, job) if state.rules[0].backfill == EASY else fits(state, job, FREE)


@inlined
def _start_backfilled(state: State, job: int, at: int) -> None:
    if state.rules[0].backfill == EASY:
        take_spare(state, job)
    dequeue(state, at)
    start_job(state, job)


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
    """Return the first column of the queue from one on whose job may be backfilled, or its end."""
    if state.clock[0].indexed:
        return _next_indexed(state, column)
    jobs, end = state.lists[QUEUE], end_of_queue(state)
    while column < end and not _may_backfill(state, jobs[column]):
        column += 1
    return column


@inlined
def backfill_queue(state: State) -> bool:
    """Start those that may, in the order of the queue; return whether it has come to its end."""
    clock, order = state.clock[0], state.rules[0].order
    if clock.unfinished:
        sort_list(state, QUEUE, order, 1)
    at = max(1, clock.examined)
    while state.units[FREE, 0] > 0:
        at = _next_column(state, clock.first + at) - clock.first
        if at >= clock.n_queued + clock.n_gone:
            break
        _start_backfilled(state, queued(state, at), at)
        if order == FAIR_SHARE:
            return False
    return True


@helper()
def _backfill_candidates(state: State) -> bool:
    clock, order = state.clock[0], state.rules[0].backfill_order
    if order >= AGEING:
        sort_list(state, CANDIDATES, order, 0)
    head = queued(state, 0)
    at = 0
    while at < clock.n_queued:
        job = state.lists[CANDIDATES, at]
        if job == head or not _may_backfill(state, job):
            at += 1
            continue
        _start_backfilled(state, job, place_in_queue(state, job))
        if order == FAIR_SHARE:
            return False
    return True


@inlined
def is_overdue(state: State) -> bool:
    """Whether a job runs although its estimate has passed."""
    if not state.rules[0].track_running or state.clock[0].n_running == 0:
        return False
    return bool(state.jobs[state.lists[RUNNING, 0]].expected_end <= state.clock[0].now)


@kernel(void(STATE), forceinline=True)
def list_pass(state: State) -> None:
    """Start jobs from the head of the queue while they fit, then backfill others, if the rules say so.

    Of the first ``examined`` jobs none can start before a job ends: what is free and what is spare only shrinks until
    then. So they are not looked at again, unless a job runs beyond its estimate, which moves the shadow time.
    """
    clock, rules = state.clock[0], state.rules[0]
    if clock.unfinished != _BACKFILLING:
        if rules.order >= AGEING or is_overdue(state):
            clock.examined = 0
        if clock.examined == 0:
            if is_untidy(state):
                tidy_queue(state)
            clock.unfinished = not _start_from_head(state)
            if clock.unfinished:
                return
            if clock.n_queued > 1 and rules.backfill == EASY:
                find_shadow(state, queued(state, 0))
    if rules.backfill == NONE:
        clock.examined = min(1, clock.n_queued)
        return
    if clock.n_queued < 2:
        # Who comes next will need a shadow time, which nobody has needed so far.
        clock.unfinished = 0
        return
    ended = _backfill_candidates(state) if rules.own_backfill_order else backfill_queue(state)
    clock.unfinished = 0 if ended else _BACKFILLING
    if ended:
        clock.examined = clock.n_queued + clock.n_gone


@inlined
def _exchange_spare(state: State, spare: IntArray) -> None:
    for resource in range(spare.size):
        state.units[EXTRA, resource], spare[resource] = spare[resource], state.units[EXTRA, resource]


@kernel(float64(STATE, int64, int64[::1]))
def shadow_of(state: State, job: int, spare: IntArray) -> float:
    """Return what `find_shadow` finds for a job, and write what is spare then; the scheduler's own are as before."""
    clock = state.clock[0]
    kept = clock.shadow
    _exchange_spare(state, spare)
    find_shadow(state, job)
    _exchange_spare(state, spare)
    found, clock.shadow = clock.shadow, kept
    return float(found)


@kernel(int64(STATE, int64, float64, int64[::1]))
def next_backfillable(state: State, after: int, shadow: float, spare: IntArray) -> int:
    """Return the first waiting job behind one that EASY would backfill, ``NOBODY`` if there is none.

    Behind ``NOBODY`` are all of them. The queue is in the order of ranks.
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


@kernel(int64(STATE, int64))
def run(state: State, work: int) -> int:
    """Simulate until nothing is left to happen, or some work is done; return how much was done."""
    clock = state.clock[0]
    clock.work = 0
    while clock.work < work:
        if not clock.unfinished and advance(state, np.inf) != HAPPENED:
            return int(clock.work)
        clock.work += 1 + clock.n_queued
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
