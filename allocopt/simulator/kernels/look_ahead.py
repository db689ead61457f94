"""When a job can start by the estimates of those that run: the shadow time of EASY backfilling (Lifka 1995).

To look ahead is to take running jobs off in the order of their expected ends. Where a state keeps what is free then is
its own matter: it answers the three questions below.
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
def fits_ahead(state: Events, job: int) -> bool:
    """Whether there is room for a job in what is free ahead."""
    raise NotImplementedError


@inlined
def shadow_time(state: Events, job: int) -> float:
    """Return the first expected end at which there is room for a job that has none now; infinite if there is none.

    An expected end that has passed counts as now. All jobs that end at one time are taken off before the job is tried.
    Without running jobs the time is now, if there is room.
    """
    clock = state.clock[0]
    shadow = clock.now
    begin_ahead(state, job)
    for i in range(clock.n_running):
        running = state.lists[RUNNING, i]
        time = max(state.jobs[running].expected_end, clock.now)
        if i > 0 and time > shadow and fits_ahead(state, job):
            return float(shadow)
        shadow = time
        end_ahead(state, running, job)
    return float(shadow) if fits_ahead(state, job) else np.inf
