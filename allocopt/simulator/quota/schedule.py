"""What a simulation with quotas gives."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.simulator.quota.accounts import Accounts
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
    accounts
        What each job used, and with whom.
    """

    jobs: tuple[QueuedJob, ...]
    cores: int
    start: FloatArray
    end: FloatArray
    accounts: Accounts

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
        return float(self.accounts.busy_core_s.sum()) / (self.cores * self.makespan_s)

    @property
    def allotted_utilization(self) -> float:
        """Core-seconds that jobs used of what they were entitled to."""
        return float(self.accounts.used_core_s.sum() / self.accounts.allotted_core_s.sum())

    @property
    def memory_utilization(self) -> float:
        """Occupied memory over that of the cluster, over time."""
        return float(self.accounts.memory_core_s.sum()) / (self.cores * self.makespan_s)

    def of(self, application: str) -> IntArray:
        """Numbers of the jobs of an application."""
        return np.flatnonzero([one.application == application for one in self.jobs])
