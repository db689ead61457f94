"""Execution model ``quota``: jobs progress by the quotas they hold, and by how their present stages overlap.

With it what such a simulation gives: the schedule, what jobs keep busy and are entitled to, how long they share.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.simulator.execution import Change
from allocopt.simulator.placement import Guest
from allocopt.simulator.quota.state import Allocation, Progress
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.state import NOBODY
from allocopt.traces.asax_queue import QueuedJob


@dataclass(frozen=True, slots=True, eq=False)
class Accounts:
    """Sums over time, in the order of the jobs."""

    host_of: IntArray  # job beside which each started, -1 where it started on cores of its own, shape ``(n,)``
    guests: IntArray  # guests that each job has had, shape ``(n,)``
    busy_core_s: FloatArray  # core-seconds that each job kept busy, shape ``(n,)``
    # Core-seconds that each job was entitled to by its quota, and those of them that it used; what a job takes beyond
    # its quota, because another one leaves it, is not counted, shape ``(n,)``.
    allotted_core_s: FloatArray
    used_core_s: FloatArray
    memory_core_s: FloatArray  # memory that each job occupied, in cores' worth of it times seconds, shape ``(n,)``
    # Seconds for which each job owned its cores, and for which it had a guest on them, shape ``(n,)``.
    owned_s: FloatArray
    hosting_s: FloatArray
    # What sharing is worth: the work that each job did as a guest, and what each owner of cores would have done besides
    # had it been alone, in seconds that it takes alone times the cores that it asked for, shape ``(n,)``.
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
    """A schedule of jobs that share cores."""

    jobs: tuple[QueuedJob, ...]
    accounts: Accounts  # what each job used, and with whom

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

    def of(self, application: str) -> IntArray:
        """Numbers of the jobs of an application."""
        return np.flatnonzero([one.application == application for one in self.jobs])


class QuotaExecution:
    """Follows the allocations of a simulation, and gives every job the speed that it has in its present stage."""

    name = "quota"

    def __init__(
        self, jobs: Sequence[QueuedJob], sharing: Sharing = Sharing.SHARES, interference: Interference | None = None
    ) -> None:
        self.jobs = tuple(jobs)
        self.allocations: list[Allocation] = []
        self.accounts = Accounts.of(len(self.jobs))
        self._sharing, self._interference = sharing, interference or Interference()
        self.period_s: float | None = None
        """Seconds after which the scheduler is called again while jobs share; None for when something happens only."""
        self._now = -np.inf
        self._known: set[int] = set()
        self._speeds: dict[int, float] = {}

    def follow(self, now: float, running: Sequence[int], guests: Mapping[int, Guest]) -> list[Allocation]:
        """Follow the simulation to a time, and to who runs where then; return the allocations whose owners ended."""
        if now > self._now:
            self._pass(now)
        over = self._take_ended(set(running))
        hosts = {guest.job: host for host, guest in guests.items()}
        for job in running:
            if job not in self._known:
                self._enter(Progress(job, self.jobs[job], now), hosts.get(job))
        for allocation in self.allocations:
            guest = guests.get(allocation.number)
            allocation.percent = 0 if guest is None else guest.percent
            allocation.set_rates(self._sharing, self._interference)
        return over

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the jobs whose rate is another one; see `ExecutionModel.speeds`."""
        self.follow(change.now, change.running.tolist(), change.guests)
        for one in self._jobs():
            speed = 1.0 / one.slowdown
            if self._speeds.get(one.number, 1.0) != speed:
                self._speeds[one.number] = speed
                yield one.number, speed

    def next_change(self) -> float:
        """When the next stage ends, or the period; the last stage of a job ends with it."""
        stages = (self._now + one.until_next_s() for one in self._jobs() if len(one.left) > 1)
        shared = any(allocation.guest is not None for allocation in self.allocations)
        again = self._now + self.period_s if shared and self.period_s is not None else np.inf
        return min(*stages, again, np.inf)

    def measured(self, schedule: Schedule) -> QuotaSchedule:
        """Return a schedule with what the jobs used."""
        kept = {field.name: getattr(schedule, field.name) for field in fields(Schedule)}
        return QuotaSchedule(**kept, jobs=self.jobs, accounts=self.accounts)

    def is_one_over(self) -> bool:
        """Whether a job has done its work, and its end is due at once."""
        return any(one.is_over for one in self._jobs())

    def _jobs(self) -> Iterator[Progress]:
        return (one for allocation in self.allocations for one in allocation.jobs)

    def _pass(self, now: float) -> None:
        for allocation in self.allocations:
            self.accounts.note(allocation, now - self._now)
            for one in allocation.jobs:
                one.advance(now - self._now)
        self._now = now

    def _take_ended(self, running: set[int]) -> list[Allocation]:
        """Take jobs that have ended off their allocations; a guest whose host has ended owns one from now on."""
        over = []
        for allocation in list(self.allocations):
            if allocation.guest is not None and allocation.guest.number not in running:
                allocation.guest = None
            if allocation.host.number not in running:
                over.append(allocation)
                self.allocations.remove(allocation)
                if allocation.guest is not None:
                    self.allocations.append(Allocation(allocation.guest))
        return over

    def _enter(self, progress: Progress, host: int | None) -> None:
        self._known.add(progress.number)
        if host is None:
            self.allocations.append(Allocation(progress))
            return
        next(one for one in self.allocations if one.number == host).guest = progress
        self.accounts.guests[host] += 1
        self.accounts.host_of[progress.number] = host
