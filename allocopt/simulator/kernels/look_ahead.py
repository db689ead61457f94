"""The shadow time of EASY backfilling (Lifka 1995): when a job can start if running jobs end at their expected ends.

Looking ahead removes running jobs in the order of their expected ends, and counts the resources that are free then.
Each kind of state stores these free resources ahead in its own way, and answers the questions below.
"""

import numpy as np

from allocopt.kernels.compiled import inlined, question
from allocopt.simulator.state import RUNNING, Events


@question
def begin_ahead(state: Events, job: int) -> None:
    """Begin to look ahead for a job: set the free resources ahead to those that are free now."""


@question
def release_ahead(state: Events, running: int, job: int) -> None:
    """Add the resources of a running job to the free resources ahead, if the waiting job ``job`` could use them."""


@question
def fits_ahead(state: Events, job: int, time: float) -> bool:
    """Whether a job fits into the free resources ahead if it starts at ``time``."""
    raise NotImplementedError


@question
def next_downtime_end(state: Events, time: float) -> float:
    """Return the first time after ``time`` at which a known downtime ends; infinite if none does."""
    raise NotImplementedError


@inlined
def _earliest_fit(state: Events, job: int, since: float, until: float) -> float:
    """Return the first time before ``until`` when a job fits: ``since`` or a later end of a downtime; else infinity."""
    time = since
    while time < until:
        if fits_ahead(state, job, time):
            return time
        time = next_downtime_end(state, time)
    return np.inf


@inlined
def shadow_time(state: Events, job: int) -> float:
    """Return when a job that does not fit now first fits, at an expected end or the end of a downtime; or infinity.

    An expected end that has passed counts as now. All jobs that end at the same time are removed before the job is
    tried. If no job runs and the job fits now, this is now.
    """
    clock = state.clock[0]
    shadow = clock.now
    begin_ahead(state, job)
    for i in range(clock.n_running):
        running = state.lists[RUNNING, i]
        time = max(state.jobs[running].expected_end, clock.now)
        if time > shadow:
            found = _earliest_fit(state, job, shadow if i > 0 else next_downtime_end(state, shadow), time)
            if found < np.inf:
                return found
        shadow = time
        release_ahead(state, running, job)
    return _earliest_fit(state, job, shadow, np.inf)
