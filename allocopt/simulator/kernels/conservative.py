"""Conservative backfilling: every waiting job has a reservation (Mu'alem and Feitelson, 2001, 10.1109/71.932708).

The profile is a step function of time: the amounts of each resource that are not reserved.
"""

import numpy as np
from numba import int64, void

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.backfilling import fits
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import AGEING, dequeue, queued, sort_list
from allocopt.simulator.rules import OrderKind
from allocopt.simulator.state import CAPACITY, ENDED, FREE, QUEUE, RUNNING, STATE, State

ARRIVAL = int(OrderKind.ARRIVAL)

AT_A_TIME = 64
"""Largest number of reservations made in a row; Ctrl-C is handled after it."""


@inlined
def _copy_step(state: State, source: int, target: int) -> None:
    state.steps[target] = state.steps[source]
    for resource in range(state.units.shape[1]):
        state.unpromised[target, resource] = state.unpromised[source, resource]


@helper()
def _forget_past(state: State) -> None:
    clock = state.clock[0]
    past = 0
    while past + 1 < clock.n_profile and state.steps[past + 1] <= clock.now:
        past += 1
    if past > 0:
        for i in range(past, clock.n_profile):
            _copy_step(state, i, i - past)
        clock.n_profile -= past
    state.steps[0] = clock.now


@helper()
def _step_at(state: State, time: float) -> int:
    """Return the number of the step that begins at ``time``, inserted if needed; the profile must begin by then."""
    clock = state.clock[0]
    at, end = 0, clock.n_profile
    while at < end:
        middle = (at + end) // 2
        if state.steps[middle] < time:
            at = middle + 1
        else:
            end = middle
    if at < clock.n_profile and state.steps[at] == time:
        return at
    for i in range(clock.n_profile, at, -1):
        _copy_step(state, i - 1, i)
    _copy_step(state, at - 1, at)
    state.steps[at] = time
    clock.n_profile += 1
    return at


@helper()
def _merge_step(state: State, at: int) -> None:
    clock = state.clock[0]
    if at == 0 or at >= clock.n_profile:
        return
    for resource in range(state.units.shape[1]):
        if state.unpromised[at - 1, resource] != state.unpromised[at, resource]:
            return
    for i in range(at + 1, clock.n_profile):
        _copy_step(state, i, i - 1)
    clock.n_profile -= 1


@helper()
def _change_profile(state: State, job: int, begin: float, end: float, sign: int) -> None:
    """Reserve the request of a job from ``begin`` to ``end`` (sign -1), or cancel the reservation (sign 1)."""
    begin = max(begin, state.steps[0])
    if not begin < end:
        return
    first = _step_at(state, begin)
    last = _step_at(state, end)
    for i in range(first, last):
        for resource in range(state.units.shape[1]):
            state.unpromised[i, resource] += sign * state.request[job, resource]
    _merge_step(state, last)
    _merge_step(state, first)


@inlined
def _holds(state: State, job: int, step: int) -> bool:
    for resource in range(state.units.shape[1]):
        if state.request[job, resource] > state.unpromised[step, resource]:
            return False
    return True


@helper()
def _lasts(state: State, job: int) -> bool:
    # Whether a job fits into the profile from now on for the length of its estimate.
    end = state.steps[0] + state.jobs[job].estimate
    for step in range(state.clock[0].n_profile):
        if state.steps[step] >= end:
            break
        if not _holds(state, job, step):
            return False
    return True


@helper()
def _earliest_start(state: State, job: int) -> float:
    n = state.clock[0].n_profile
    begin = state.steps[0]
    for i in range(n):
        if state.steps[i] >= begin + state.jobs[job].estimate:
            break
        if not _holds(state, job, i):
            begin = state.steps[i + 1] if i + 1 < n else np.inf
    return float(begin)


@helper()
def _forget_plan(state: State) -> None:
    """Drop all reservations, and keep only running jobs in the profile; expected ends in the past count as now."""
    clock = state.clock[0]
    clock.n_profile = 1
    state.steps[0] = clock.now
    for resource in range(state.units.shape[1]):
        state.unpromised[0, resource] = state.units[CAPACITY, resource]
    for i in range(clock.n_running):
        job = state.lists[RUNNING, i]
        _change_profile(state, job, clock.now, state.jobs[job].expected_end, -1)
    for at in range(clock.n_queued):
        state.jobs[queued(state, at)].reserved = np.inf
    clock.n_planned = 0


@inlined
def _plan(state: State) -> bool:
    """Make reservations for the jobs without one, in the order of the queue; return whether all are made.

    Without ``plan_ahead``, jobs behind the last one that can start now get no reservation: a job that does not fit now
    beside the reservations made so far does not fit beside more of them.
    """
    clock = state.clock[0]
    planned = 0
    for at in range(clock.n_planned, clock.n_queued):
        if not state.rules[0].plan_ahead and not _lasts(state, queued(state, at)):
            continue
        while clock.n_planned <= at:
            job = queued(state, clock.n_planned)
            record = state.jobs[job]
            if record.reserved == np.inf:
                if planned == AT_A_TIME:
                    return False
                clock.work += clock.n_profile
                record.reserved = _earliest_start(state, job)
                _change_profile(state, job, record.reserved, record.reserved + record.estimate, -1)
                planned += 1
            clock.n_planned += 1
    return True


@helper()
def _start_due(state: State) -> bool:
    """Start the jobs whose reservations are due; return whether all of them could start."""
    clock = state.clock[0]
    all_started = True
    at = 0
    while at < clock.n_planned:
        job = queued(state, at)
        due = state.jobs[job].reserved <= clock.now
        if due and fits(state, job, FREE):
            dequeue(state, at)
            clock.n_planned -= 1
            start_job(state, job)
        else:
            all_started &= not due
            at += 1
    return all_started


@helper()
def _is_void(state: State) -> bool:
    """Free what jobs that ended early hold in the profile until their expected ends; return whether to plan again."""
    clock, is_void = state.clock[0], False
    for at in range(clock.n_ended):
        job = state.lists[ENDED, at]
        if clock.now < state.jobs[job].expected_end:
            _change_profile(state, job, clock.now, state.jobs[job].expected_end, 1)
            is_void = state.rules[0].compression != 0
    at = 0
    while not is_void and at < clock.n_queued:
        # This job could not start at its reservation, because another one ran beyond its estimate.
        is_void = state.jobs[queued(state, at)].reserved < clock.now
        at += 1
    return is_void


@kernel(void(STATE))
def conservative_pass(state: State) -> None:
    """Plan jobs without reservations, and start those whose reservations are due; a long pass takes several calls."""
    clock, rules = state.clock[0], state.rules[0]
    if clock.unfinished == 0:
        _forget_past(state)
        if rules.order >= AGEING:
            sort_list(state, QUEUE, rules.order, 0)
        if rules.order != ARRIVAL:
            # New jobs may be between jobs that have reservations.
            clock.n_planned = 0
        if _is_void(state):
            _forget_plan(state)
        clock.unfinished = 1
    if not _plan(state):
        return
    if not _start_due(state) and clock.unfinished == 1:
        # A job runs beyond its estimate and holds units that are reserved for another one.
        _forget_plan(state)
        clock.unfinished = 2
        return
    clock.unfinished = 0
    clock.wake = np.inf
    for at in range(clock.n_planned):
        promised = state.jobs[queued(state, at)].reserved
        if promised > clock.now:
            clock.wake = min(clock.wake, promised)


@kernel(int64(STATE, int64))
def run_conservative(state: State, work: int) -> int:
    """Simulate until no event is left, or about ``work`` is done; return how much was done."""
    clock = state.clock[0]
    clock.work = 0
    while clock.work < work:
        if not clock.unfinished and advance(state, np.inf) != HAPPENED:
            return int(clock.work)
        clock.work += 1 + clock.n_queued
        conservative_pass(state)
    return work
