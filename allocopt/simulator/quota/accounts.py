"""What jobs that share keep busy, are entitled to, and how long they share."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.simulator.quota.state import Allocation
from allocopt.simulator.state import NOBODY


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
