"""What each job of a schedule experienced: wait, response and slowdowns."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.simulator.schedule import Schedule

SLOWDOWN_BOUND_S = 10.0
"""Run time below which jobs count as that long in the bounded slowdown, so that tiny jobs do not rule its mean."""


@dataclass(frozen=True, slots=True, eq=False)
class JobTimes:
    """Measures of jobs in the schedule's order, each of shape ``(n,)``.

    Parameters
    ----------
    wait_s
        Start minus release, in seconds.
    response_s
        End minus release, in seconds.
    slowdown
        Response over run time, at least 1; 1 for a job too short for its end to differ from its start.
    bounded_slowdown
        ``max(1, (wait + run) / max(run, 10 s))``.

    Notes
    -----
    Feitelson, "Metrics for parallel job scheduling and their convergence", JSSPP 2001, doi:10.1007/3-540-45540-X_11.
    """

    wait_s: FloatArray
    response_s: FloatArray
    slowdown: FloatArray
    bounded_slowdown: FloatArray


def job_times(schedule: Schedule) -> JobTimes:
    """Measure every job of a schedule; a job that was killed has run until it was killed."""
    return times_of(schedule.start - schedule.release, run_times(schedule))


def times_of(wait: FloatArray, run: FloatArray) -> JobTimes:
    """Measure jobs of which the waits and the times from start to end are known, in seconds, shape ``(n,)``."""
    response = wait + run
    slowdown = np.divide(response, run, out=np.ones(len(run)), where=run > 0)
    bounded: FloatArray = np.maximum(response / np.maximum(run, SLOWDOWN_BOUND_S), 1.0)
    return JobTimes(wait, response, slowdown, bounded)


def run_times(schedule: Schedule) -> FloatArray:
    """Seconds from the start to the end of every job, shape ``(n,)``.

    A job that ran as long as it was recorded or estimated to has exactly that time, not a difference with its rounding.
    """
    jobs, start, end = schedule.workload, schedule.start, schedule.end
    killed = np.minimum(jobs.run, jobs.estimate)
    difference = np.where(start + jobs.run == end, jobs.run, end - start)
    run: FloatArray = np.where(start + killed == end, killed, difference)
    return run
