"""When a job can start by the estimates of those that run: the shadow time of EASY backfilling (Lifka 1995).

To look ahead is to take running jobs off in the order of their expected ends. Where a state keeps what is free then is
its own matter: it answers the questions below.
"""

import numpy as np

from allocopt.kernels.compiled import inlined, question
from allocopt.simulator.state import RUNNING, Events


@question
def begin_ahead(state: Events, job: int) -> None:
    """Begin to look ahead for a job, with what is free now."""


@question
def end_ahead(state: Events, running: int, job: int) -> None:
    """Add what a running job holds to what is free ahead, where that matters for a job."""


@question
def fits_ahead(state: Events, job: int, time: float) -> bool:
    """Whether there is room for a job from a time on, in what is free ahead."""
    raise NotImplementedError


@question
def next_opening(state: Events, time: float) -> float:
    """Return the first time after another at which the machine is known to have more room by itself; maybe infinite."""
    raise NotImplementedError


@inlined
def _first_fit(state: Events, job: int, since: float, until: float) -> float:
    """Return the first time before ``until`` at which a job has room, of ``since`` and the openings that follow."""
    time = since
    while time < until:
        if fits_ahead(state, job, time):
            return time
        time = next_opening(state, time)
    return np.inf


@inlined
def shadow_time(state: Events, job: int) -> float:
    """Return the first expected end or opening at which a job has room that has none now; infinite if there is none.

    An expected end that has passed counts as now. All jobs that end at one time are taken off before the job is tried.
    Without running jobs the time is now, if there is room.
    """
    clock = state.clock[0]
    shadow = clock.now
    begin_ahead(state, job)
    for i in range(clock.n_running):
        running = state.lists[RUNNING, i]
        time = max(state.jobs[running].expected_end, clock.now)
        if time > shadow:
            found = _first_fit(state, job, shadow if i > 0 else next_opening(state, shadow), time)
            if found < np.inf:
                return found
        shadow = time
        end_ahead(state, running, job)
    return _first_fit(state, job, shadow, np.inf)
