"""Conservative backfilling: every waiting job has a reservation (Mu'alem and Feitelson, 2001, 10.1109/71.932708)."""

import numpy as np
from numba import int64, void

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.backfilling import fits
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.profile import change_profile, earliest_start, empty_profile, forget_past, lasts
from allocopt.simulator.kernels.queue import AGEING, dequeue, queued, sort_list
from allocopt.simulator.rules import OrderKind
from allocopt.simulator.state import FREE, QUEUE, RUNNING, STATE, State

ARRIVAL = int(OrderKind.ARRIVAL)

AT_A_TIME = 64
"""Most reservations that are made in a row: it has to be seen now and then whether the user wants to interrupt."""


@helper()
def reserve(state: State, job: int) -> None:
    """Promise a job the first time at which it fits."""
    record = state.jobs[job]
    record.reserved = earliest_start(state, job)
    change_profile(state, job, record.reserved, record.reserved + record.estimate, -1)


@helper()
def forget_plan(state: State) -> None:
    """Promise nothing but the running jobs what they hold; an estimated end that has passed is now."""
    clock = state.clock[0]
    empty_profile(state)
    for i in range(clock.n_running):
        job = state.lists[RUNNING, i]
        change_profile(state, job, clock.now, state.jobs[job].expected_end, -1)
    for at in range(clock.n_queued):
        state.jobs[queued(state, at)].reserved = np.inf
    clock.n_planned = 0


@inlined
def _plan(state: State) -> bool:
    """Promise a time to the jobs that have none yet, in the order of the queue; return whether that came to its end.

    Unless the rules want all of them to be planned ahead, those behind the last one that can start now go without: a
    job that does not fit now beside those planned so far does not fit beside more of them.
    """
    clock = state.clock[0]
    planned = 0
    for at in range(clock.n_planned, clock.n_queued):
        if not state.rules[0].plan_ahead and not lasts(state, queued(state, at)):
            continue
        while clock.n_planned <= at:
            job = queued(state, clock.n_planned)
            if state.jobs[job].reserved == np.inf:
                if planned == AT_A_TIME:
                    return False
                reserve(state, job)
                planned += 1
            clock.n_planned += 1
    return True


@helper()
def start_due(state: State) -> bool:
    """Start the jobs whose reservation has come; return whether all of them could."""
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


@inlined
def _one_was_missed(state: State) -> bool:
    """Whether a waiting job could not start when it was promised, for another one ran beyond its estimate."""
    for at in range(state.clock[0].n_queued):
        if state.jobs[queued(state, at)].reserved < state.clock[0].now:
            return True
    return False


@kernel(void(STATE))
def conservative_pass(state: State) -> None:
    """Plan the jobs that have no reservation yet, and start those whose time has come; or do a part of that."""
    clock, rules = state.clock[0], state.rules[0]
    if clock.unfinished == 0:
        forget_past(state)
        if rules.order >= AGEING:
            sort_list(state, QUEUE, rules.order, 0)
        if rules.order != ARRIVAL:
            # Jobs may have come to stand between those that have their reservations.
            clock.n_planned = 0
        if (clock.ended_early and rules.compression) or _one_was_missed(state):
            forget_plan(state)
        clock.ended_early = 0
        clock.unfinished = 1
    if not _plan(state):
        return
    if not start_due(state) and clock.unfinished == 1:
        # A job runs beyond its estimate and holds what was promised to another one.
        forget_plan(state)
        clock.unfinished = 2
        return
    clock.unfinished = 0
    clock.wake = np.inf
    for at in range(clock.n_planned):
        promised = state.jobs[queued(state, at)].reserved
        if promised > clock.now:
            clock.wake = min(clock.wake, promised)


@kernel(int64(STATE, int64))
def run_conservative(state: State, passes: int) -> int:
    """Simulate until nothing is left to happen, or for a number of passes; return how many were made."""
    for done in range(passes):
        if not state.clock[0].unfinished and advance(state, np.inf) != HAPPENED:
            return done
        conservative_pass(state)
    return passes
