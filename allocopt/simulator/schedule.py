"""A schedule: when every job of a workload started and ended, where it ran, and what it experienced."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Topology
from allocopt.notebook import html_table
from allocopt.traces.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """What a simulation gives; all arrays are in the workload's order, shape ``(n,)``, times in seconds.

    Parameters
    ----------
    processors
        Size of the machine.
    release
        When each job joined the queue: its submit time, or later where it had to wait for a preceding job.
    start, end
        A job runs on ``[start, end)``, and holds its processors for as long.
    nodes, topology
        Nodes of each job, where the platform has nodes, and how these are connected, where that is known; else None.
    held_from
        Where jobs were guests on processors that others held: from when on each job held its own, ``end`` if never.
    """

    workload: Workload
    processors: int
    release: FloatArray
    start: FloatArray
    end: FloatArray
    nodes: tuple[IntArray, ...] | None = None
    topology: Topology | None = None
    held_from: FloatArray | None = None

    @property
    def wait_s(self) -> FloatArray:
        """Seconds for which each job waited."""
        return np.asarray(self.start - self.release)

    @property
    def run_s(self) -> FloatArray:
        """Seconds from the start to the end of each job: a difference, with its rounding (see `run_times`)."""
        return np.asarray(self.end - self.start)

    @property
    def response_s(self) -> FloatArray:
        """Seconds from joining the queue to the end of each job."""
        return np.asarray(self.end - self.release)

    @property
    def makespan_s(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.end.max() - self.workload.submit.min())

    def _repr_html_(self) -> str:
        waits = self.wait_s
        has_jobs = len(waits) > 0
        facts = (
            ("jobs", len(waits)),
            ("processors", self.processors),
            ("mean wait s", float(waits.mean()) if has_jobs else None),
            ("longest wait s", float(waits.max()) if has_jobs else None),
            ("makespan s", self.makespan_s if has_jobs else None),
        )
        return html_table(f"Schedule of {self.workload.name}", facts)


SLOWDOWN_BOUND_S = 10.0
"""Run time below which jobs count as that long in the bounded slowdown, so that tiny jobs do not rule its mean."""


@dataclass(frozen=True, slots=True, eq=False)
class JobTimes:
    """Measures of jobs in the schedule's order, each of shape ``(n,)``.

    Feitelson, "Metrics for parallel job scheduling and their convergence", JSSPP 2001, doi:10.1007/3-540-45540-X_11.
    """

    wait_s: FloatArray  # start minus release, in seconds
    response_s: FloatArray  # end minus release, in seconds
    # Response over run time, at least 1; 1 for a job too short for its end to differ from its start.
    slowdown: FloatArray
    bounded_slowdown: FloatArray  # ``max(1, (wait + run) / max(run, 10 s))``


def job_times(schedule: Schedule) -> JobTimes:
    """Measure every job of a schedule; a job that was killed has run until it was killed."""
    return times_of(schedule.wait_s, run_times(schedule))


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
