"""Conservative backfilling: every waiting job has a reservation (Mu'alem and Feitelson, 2001, 10.1109/71.932708)."""

import numpy as np

from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.kernels.backfilling import fits
from allocopt.simulator.kernels.events import start_job
from allocopt.simulator.kernels.profile import change_profile, earliest_start, empty_profile, forget_past
from allocopt.simulator.kernels.queue import AGEING, dequeue, queued, sort_list
from allocopt.simulator.state import FREE, QUEUE, RUNNING, State


@helper()
def reserve(state: State, job: int) -> None:
    """Promise a job the first time at which it fits."""
    record = state.jobs[job]
    record.reserved = earliest_start(state, job)
    change_profile(state, job, record.reserved, record.reserved + record.estimate, -1)


@helper()
def plan_anew(state: State) -> None:
    """Plan all waiting jobs in their order around the running ones; an estimated end that has passed is now."""
    empty_profile(state)
    for i in range(state.clock[0].n_running):
        job = state.lists[RUNNING, i]
        change_profile(state, job, state.clock[0].now, state.jobs[job].expected_end, -1)
    for at in range(state.clock[0].n_queued):
        reserve(state, queued(state, at))


@helper()
def start_due(state: State) -> bool:
    """Start the jobs whose reservation has come; return whether all of them could."""
    clock = state.clock[0]
    all_started = True
    at = 0
    while at < clock.n_queued:
        job = queued(state, at)
        due = state.jobs[job].reserved <= clock.now
        if due and fits(state, job, FREE):
            dequeue(state, at)
            start_job(state, job)
        else:
            all_started &= not due
            at += 1
    return all_started


@helper()
def next_reservation(state: State) -> float:
    """Earliest time to come that a waiting job was promised."""
    wake = np.inf
    for at in range(state.clock[0].n_queued):
        promised = state.jobs[queued(state, at)].reserved
        if promised > state.clock[0].now:
            wake = min(wake, promised)
    return wake


@inlined
def _reserve_new(state: State) -> None:
    """Promise a time to the jobs that have none yet."""
    for at in range(state.clock[0].n_queued):
        if state.jobs[queued(state, at)].reserved == np.inf:
            reserve(state, queued(state, at))


@inlined
def _one_was_missed(state: State) -> bool:
    """Whether a waiting job could not start when it was promised, for another one ran beyond its estimate."""
    for at in range(state.clock[0].n_queued):
        if state.jobs[queued(state, at)].reserved < state.clock[0].now:
            return True
    return False


@helper()
def conservative_pass(state: State) -> None:
    """Plan the jobs that have no reservation yet, and start those whose time has come."""
    clock, rules = state.clock[0], state.rules[0]
    forget_past(state)
    if rules.order >= AGEING:
        sort_list(state, QUEUE, rules.order, 0)
    if (clock.ended_early and rules.compression) or _one_was_missed(state):
        plan_anew(state)
    clock.ended_early = 0
    _reserve_new(state)
    if not start_due(state):
        # A job runs beyond its estimate and holds what was promised to another one.
        plan_anew(state)
        start_due(state)
    clock.wake = next_reservation(state)
