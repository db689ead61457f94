"""What a simulation with quotas gives: the schedule, what jobs keep busy and are entitled to, how long they share."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.simulator.quota.state import Allocation
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.state import NOBODY
from allocopt.traces.asax_queue import QueuedJob


@dataclass(frozen=True, slots=True, eq=False)
class Accounts:
    """Sums over time, in the order of the jobs.

    Parameters
    ----------
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
    gained_core_s, lost_core_s
        What sharing is worth: the work that each job did as a guest, and what each owner of cores would have done
        besides had it been alone, in seconds that it takes alone times the cores that it asked for, shape ``(n,)``.
    """

    host_of: IntArray
    guests: IntArray
    busy_core_s: FloatArray
    allotted_core_s: FloatArray
    used_core_s: FloatArray
    memory_core_s: FloatArray
    owned_s: FloatArray
    hosting_s: FloatArray
    gained_core_s: FloatArray
    lost_core_s: FloatArray

    @classmethod
    def of(cls, jobs: int) -> "Accounts":
        """Return the accounts before anything has happened."""
        return cls(np.full(jobs, NOBODY), np.zeros(jobs, dtype=np.int64), *(np.zeros(jobs) for _ in range(8)))

    def note(self, allocation: Allocation, seconds: float) -> None:
        """Count some seconds in which nothing changes on an allocation."""
        self.owned_s[allocation.number] += seconds
        self.hosting_s[allocation.number] += seconds * (allocation.guest is not None)
        self.lost_core_s[allocation.number] += allocation.cores * seconds * (1.0 - 1.0 / allocation.host.slowdown)
        if allocation.guest is not None:
            guest = allocation.guest
            self.gained_core_s[guest.number] += guest.queued.job.cores * seconds / guest.slowdown
        for one, allotted in zip(allocation.jobs, allocation.allotted_cores(), strict=True):
            self.busy_core_s[one.number] += one.busy_cores * seconds
            self.allotted_core_s[one.number] += allotted * seconds
            self.used_core_s[one.number] += min(one.busy_cores, allotted) * seconds
            self.memory_core_s[one.number] += one.used_memory * seconds


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class QuotaSchedule(Schedule):
    """A schedule of jobs that share cores.

    Parameters
    ----------
    jobs
        The jobs with their profiles.
    accounts
        What each job used, and with whom.
    """

    jobs: tuple[QueuedJob, ...]
    accounts: Accounts

    @property
    def slowdown(self) -> FloatArray:
        """Run time of each job over that alone, shape ``(n,)``."""
        return np.asarray(self.run_s / self.workload.run)

    @property
    def cpu_utilization(self) -> float:
        """Busy core-seconds over those of the cluster."""
        return float(self.accounts.busy_core_s.sum()) / (self.processors * self.makespan_s)

    @property
    def allotted_utilization(self) -> float:
        """Core-seconds that jobs used of what they were entitled to."""
        return float(self.accounts.used_core_s.sum() / self.accounts.allotted_core_s.sum())

    @property
    def memory_utilization(self) -> float:
        """Occupied memory over that of the cluster, over time."""
        return float(self.accounts.memory_core_s.sum()) / (self.processors * self.makespan_s)

    def of(self, application: str) -> IntArray:
        """Numbers of the jobs of an application."""
        return np.flatnonzero([one.application == application for one in self.jobs])
