"""What a simulation with quotas gives."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.traces.asax_queue import QueuedJob


@dataclass(frozen=True, slots=True, eq=False)
class QuotaSchedule:
    """When every job started and ended, and with whom; arrays are in the order of the jobs, times in seconds.

    Parameters
    ----------
    jobs
        The jobs.
    cores
        Cores of the cluster.
    start, end
        Shape ``(n,)``.
    host_of
        Job beside which each started, -1 where it started on cores of its own, shape ``(n,)``.
    guests
        Guests that each job has had, shape ``(n,)``.
    busy_core_s
        Core-seconds that each job kept busy, shape ``(n,)``.
    allotted_core_s, used_core_s
        Core-seconds that each job was entitled to by its quota, and those of them that it used; what a job takes beyond
        its quota, because another one leaves it, is not counted, shape ``(n,)``.
    memory_core_s
        Memory that each job occupied, in cores' worth of it times seconds, shape ``(n,)``.
    owned_s, hosting_s
        Seconds for which each job owned its cores, and for which it had a guest on them, shape ``(n,)``.
    """

    jobs: tuple[QueuedJob, ...]
    cores: int
    start: FloatArray
    end: FloatArray
    host_of: IntArray
    guests: IntArray
    busy_core_s: FloatArray
    allotted_core_s: FloatArray
    used_core_s: FloatArray
    memory_core_s: FloatArray
    owned_s: FloatArray
    hosting_s: FloatArray

    @property
    def submit(self) -> FloatArray:
        """When each job was submitted, shape ``(n,)``."""
        return np.array([one.submit_s for one in self.jobs])

    @property
    def wait_s(self) -> FloatArray:
        """Seconds for which each job waited, shape ``(n,)``."""
        return np.asarray(self.start - self.submit)

    @property
    def run_s(self) -> FloatArray:
        """Seconds for which each job ran, shape ``(n,)``."""
        return np.asarray(self.end - self.start)

    @property
    def response_s(self) -> FloatArray:
        """Seconds from submission to end of each job, shape ``(n,)``."""
        return np.asarray(self.end - self.submit)

    @property
    def slowdown(self) -> FloatArray:
        """Run time of each job over that alone, shape ``(n,)``."""
        return np.asarray(self.run_s / np.array([one.job.remaining_s for one in self.jobs]))

    @property
    def makespan_s(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.end.max() - self.submit.min())

    @property
    def cpu_utilization(self) -> float:
        """Busy core-seconds over those of the cluster."""
        return float(self.busy_core_s.sum()) / (self.cores * self.makespan_s)

    @property
    def allotted_utilization(self) -> float:
        """Core-seconds that jobs used of what they were entitled to."""
        return float(self.used_core_s.sum() / self.allotted_core_s.sum())

    @property
    def memory_utilization(self) -> float:
        """Occupied memory over that of the cluster, over time."""
        return float(self.memory_core_s.sum()) / (self.cores * self.makespan_s)

    def of(self, application: str) -> IntArray:
        """Numbers of the jobs of an application."""
        return np.flatnonzero([one.application == application for one in self.jobs])
