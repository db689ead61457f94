"""Execution model ``quota``: the speed of jobs depends on their quotas, and on the overlap of their current stages.

Holds allocations with their jobs and the progress of each, and the results of a simulation: the schedule, the cores
that jobs kept busy and were entitled to, and how long they shared cores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.coallocation.interference import Interference, Sharing, Tenant, slowdowns
from allocopt.simulator.decisions import Start
from allocopt.simulator.execution import Change
from allocopt.simulator.held_nodes import Guest
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.state import NOBODY
from allocopt.traces.applications import QueuedJob
from allocopt.traces.job_profile import ProfiledJob, Stage

LEAST_S = 1e-6  # seconds of work below which a stage is over
ROUNDING = 1e-9  # tolerance for rounding errors in sums of memory shares


@dataclass
class Progress:
    """A running job and its progress."""

    number: int  # its number among all jobs
    queued: QueuedJob  # the job
    start_s: float
    # Remaining stages, with the remaining seconds of work of each.
    left: list[tuple[Stage, float]] = field(init=False)
    slowdown: float = 1.0  # seconds that one second of its work takes now

    def __post_init__(self) -> None:
        job = self.queued.job
        self.left = [(stage, stage.share * job.remaining_s) for stage in job.profile]

    @property
    def stage(self) -> Stage:
        """Current stage."""
        return self.left[0][0]

    @property
    def work_left_s(self) -> float:
        """Remaining run time in seconds without other jobs."""
        return sum(seconds for _, seconds in self.left)

    @property
    def busy_cores(self) -> float:
        """Number of cores that it keeps busy now."""
        return self.stage.cpu * self.queued.job.cores / self.slowdown

    @property
    def used_memory(self) -> float:
        """Memory that it occupies now, in units of the memory per core."""
        return self.stage.memory * self.queued.job.cores

    @property
    def is_over(self) -> bool:
        """Whether all its work is done."""
        return len(self.left) == 1 and self.left[0][1] <= LEAST_S

    def advance(self, seconds: float) -> None:
        """Advance by some seconds; a finished stage is removed, except the last one, with which the job ends."""
        self.left[0] = (self.stage, self.left[0][1] - seconds / self.slowdown)
        if self.left[0][1] <= LEAST_S and len(self.left) > 1:
            self.left.pop(0)

    def until_next_s(self) -> float:
        """Return the seconds until its current stage ends at the current speed."""
        return self.left[0][1] * self.slowdown

    def interval(self, now: float) -> float:
        """Return the elapsed share of its duration at the current speed (ASAX paper, section 3.1)."""
        elapsed = now - self.start_s
        return elapsed / (elapsed + self.needed_s)

    def happiness(self, now: float) -> float:
        """Return the time left until its limit, divided by the time needed at the current speed (Eq. 1; errata)."""
        left = max(0.0, self.queued.job.walltime_s - (now - self.start_s))
        return left / max(self.needed_s, 1e-9)

    @property
    def needed_s(self) -> float:
        """Remaining run time in seconds at the current speed."""
        return self.work_left_s * self.slowdown

    def remaining(self, now: float) -> ProfiledJob:
        """Return the rest of the job, as a job of a co-allocation problem."""
        total, job = self.work_left_s, self.queued.job
        profile = tuple(replace(stage, share=seconds / total) for stage, seconds in self.left)
        limit = max(0.0, job.walltime_s - (now - self.start_s))
        return replace(job, profile=profile, remaining_s=total, walltime_s=limit)


@dataclass
class SharedCores:
    """Cores that one job owns, and may share with a guest."""

    host: Progress  # the job that owns the cores
    guest: Progress | None = None  # the job that shares them, if any
    percent: int = 0  # the guest's quota in percent of the cores

    @property
    def number(self) -> int:
        """Number of the allocation: that of its owner, as no job ever owns two allocations."""
        return self.host.number

    @property
    def cores(self) -> int:
        """Number of cores: those that the owner requested."""
        return self.host.queued.job.cores

    @property
    def jobs(self) -> list[Progress]:
        """The jobs on the cores, the owner first."""
        return [self.host] if self.guest is None else [self.host, self.guest]

    def takes(self, guest: ProfiledJob, heeds_memory: bool = True) -> bool:
        """Whether it can take a guest: it has none, enough cores, and with ``heeds_memory`` enough memory."""
        if self.guest is not None or guest.cores > self.cores:
            return False
        held = self.host.queued.job.peak_memory() + guest.peak_memory() * guest.cores / self.cores
        return held <= 1.0 + ROUNDING or not heeds_memory

    def free_memory(self) -> float:
        """Return the memory that the owner never occupies, in units of the memory per core."""
        return self.cores * (1.0 - self.host.queued.job.peak_memory())

    def idle_cores(self) -> float:
        """Return the number of cores that the owner leaves idle in its current stage."""
        return (1.0 - self.host.stage.cpu) * self.cores

    def set_rates(self, sharing: Sharing, interference: Interference) -> None:
        """Set the slowdowns of its jobs in their current stages."""
        quotas = [1.0 - self.percent / 100, self.percent / 100] if self.guest is not None else [1.0]
        tenants = [Tenant(one.queued.job.cores, one.stage, quota) for one, quota in zip(self.jobs, quotas, strict=True)]
        for one, slowdown in zip(self.jobs, slowdowns(tenants, self.cores, sharing, interference), strict=True):
            one.slowdown = float(slowdown)

    def allotted_cores(self) -> list[float]:
        """Return the cores that each job is entitled to: its quota, but at most the cores that it requested."""
        if self.guest is None:
            return [float(self.cores)]
        shared = self.percent / 100 * self.cores
        return [self.cores - shared, min(shared, float(self.guest.queued.job.cores))]


@dataclass(frozen=True, slots=True)
class QuotaView:
    """The scheduler's view of queue and allocations."""

    now: float  # time in seconds
    cores: int
    jobs: tuple[QueuedJob, ...]  # all jobs, by their numbers
    queue: list[int]  # numbers of the waiting jobs in the order of their submission
    allocations: list[SharedCores]  # the allocations, oldest first; schedulers must not change them
    rng: np.random.Generator

    @property
    def free_cores(self) -> int:
        """Number of cores that no job owns."""
        return self.cores - sum(one.cores for one in self.allocations)

    def easy_starts(self) -> Iterator[Start]:
        """Yield starts as in EASY backfilling: jobs in order while they fit, then others that do not delay the head."""
        while self.queue and self.jobs[self.queue[0]].job.cores <= self.free_cores:
            yield Start(self.queue[0])
        if not self.queue:
            return
        # Find when enough cores for the first job are expected to be free, and how many more are free then.
        releases = []
        for one in self.allocations:
            kept, host_end = 0, max(self.now, one.host.start_s + one.host.queued.job.walltime_s)
            if one.guest is not None:
                # When the host ends, the guest keeps its own cores.
                kept = one.guest.queued.job.cores
                releases.append((max(host_end, one.guest.start_s + one.guest.queued.job.walltime_s), kept))
            releases.append((host_end, one.cores - kept))
        shadow, extra = float("inf"), self.free_cores - self.jobs[self.queue[0]].job.cores
        for time, released in sorted(releases):
            extra += released
            if extra >= 0:
                shadow = time
                break
        for job in list(self.queue[1:]):
            asked = self.jobs[job].job
            in_time = self.now + asked.walltime_s <= shadow
            if asked.cores <= self.free_cores and (in_time or asked.cores <= extra):
                extra -= 0 if in_time else asked.cores
                yield Start(job)


@dataclass(frozen=True, slots=True, eq=False)
class _Accounts:
    """Sums over time for each job, in the order of the jobs."""

    host_of: IntArray  # host of each job that started as a guest, -1 if it started on its own cores, shape ``(n,)``
    guests: IntArray  # number of guests that each job has had, shape ``(n,)``
    busy_core_s: FloatArray  # core-seconds that each job kept busy, shape ``(n,)``
    # Core-seconds that each job was entitled to by its quota, and how many of these it used, shape ``(n,)``. Use beyond
    # the quota, of cores that the other job leaves idle, is not counted.
    allotted_core_s: FloatArray
    used_core_s: FloatArray
    memory_core_s: FloatArray  # memory of each job, in units of the memory per core, times seconds, shape ``(n,)``
    # Seconds during which each job owned its cores, and during which it had a guest on them, shape ``(n,)``.
    owned_s: FloatArray
    hosting_s: FloatArray
    # Gain and loss by sharing: the work that each job did as a guest, and the work that each owner of cores lost to its
    # guests, in seconds of run time without other jobs times requested cores, shape ``(n,)``.
    gained_core_s: FloatArray
    lost_core_s: FloatArray

    @classmethod
    def of(cls, jobs: int) -> "_Accounts":
        return cls(np.full(jobs, NOBODY), np.zeros(jobs, dtype=np.int64), *(np.zeros(jobs) for _ in range(8)))

    def note(self, allocation: SharedCores, seconds: float) -> None:
        # Add some seconds in which nothing changes on an allocation.
        self.owned_s[allocation.number] += seconds
        self.hosting_s[allocation.number] += seconds * (allocation.guest is not None)
        self.lost_core_s[allocation.number] += allocation.cores * seconds * (1.0 - 1.0 / allocation.host.slowdown)
        if (guest := allocation.guest) is not None:
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
    accounts: _Accounts  # what each job used, and with whom

    @property
    def slowdown(self) -> FloatArray:
        """Run time of each job divided by its run time without other jobs, shape ``(n,)``."""
        return np.asarray(self.run_s / self.workload.run)

    @property
    def cpu_utilization(self) -> float:
        """Share of the cluster's core-seconds that jobs kept busy."""
        return float(self.accounts.busy_core_s.sum()) / (self.processors * self.makespan_s)

    @property
    def allotted_utilization(self) -> float:
        """Used share of the core-seconds to which jobs were entitled."""
        return float(self.accounts.used_core_s.sum() / self.accounts.allotted_core_s.sum())

    def of(self, application: str) -> IntArray:
        """Return the numbers of the jobs of an application."""
        return np.flatnonzero([one.application == application for one in self.jobs])


class QuotaExecution:
    """Tracks the allocations of a simulation, and sets the speed of every job in its current stage."""

    name = "quota"

    def __init__(
        self, jobs: Sequence[QueuedJob], sharing: Sharing = Sharing.SHARES, interference: Interference | None = None
    ) -> None:
        self.jobs = tuple(jobs)
        self.allocations: list[SharedCores] = []
        self.accounts = _Accounts.of(len(self.jobs))
        # Seconds after which the scheduler is called again while jobs share cores; None to call it only at events.
        self.period_s: float | None = None
        self._sharing, self._interference, self._now = sharing, interference or Interference(), -np.inf
        self._known: set[int] = set()
        self._speeds: dict[int, float] = {}

    def follow(self, now: float, running: Sequence[int], guests: Mapping[int, Guest]) -> list[SharedCores]:
        """Advance to a time and update the allocations; return the allocations whose owners have ended."""
        if now > self._now:
            for allocation in self.allocations:
                self.accounts.note(allocation, now - self._now)
                for one in allocation.jobs:
                    one.advance(now - self._now)
            self._now = now
        over = self._take_ended(set(running))
        hosts = {guest.job: host for host, guest in guests.items()}
        for job in running:
            if job not in self._known:
                self._known.add(job)
                progress, host = Progress(job, self.jobs[job], now), hosts.get(job)
                if host is None:
                    self.allocations.append(SharedCores(progress))
                    continue
                next(one for one in self.allocations if one.number == host).guest = progress
                self.accounts.guests[host] += 1
                self.accounts.host_of[job] = host
        for allocation in self.allocations:
            guest = guests.get(allocation.number)
            allocation.percent = 0 if guest is None else guest.percent
            allocation.set_rates(self._sharing, self._interference)
        return over

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the jobs whose speed has changed; see `ExecutionModel.speeds`."""
        self.follow(change.now, change.running.tolist(), change.guests)
        for one in self._jobs():
            speed = 1.0 / one.slowdown
            if self._speeds.get(one.number, 1.0) != speed:
                self._speeds[one.number] = speed
                yield one.number, speed

    def next_change(self) -> float:
        """Return when the next stage or the period ends; last stages are left out, because they end with their jobs."""
        stages = (self._now + one.until_next_s() for one in self._jobs() if len(one.left) > 1)
        shared = any(allocation.guest is not None for allocation in self.allocations)
        again = self._now + self.period_s if shared and self.period_s is not None else np.inf
        return min(*stages, again, np.inf)

    def measured(self, schedule: Schedule) -> QuotaSchedule:
        """Return the schedule with the accounts of the jobs."""
        kept = {each.name: getattr(schedule, each.name) for each in fields(Schedule)}
        return QuotaSchedule(**kept, jobs=self.jobs, accounts=self.accounts)

    def _jobs(self) -> Iterator[Progress]:
        return (one for allocation in self.allocations for one in allocation.jobs)

    def _take_ended(self, running: set[int]) -> list[SharedCores]:
        # A guest whose host has ended owns an allocation from now on.
        over = []
        for allocation in list(self.allocations):
            if allocation.guest is not None and allocation.guest.number not in running:
                allocation.guest = None
            if allocation.host.number not in running:
                over.append(allocation)
                self.allocations.remove(allocation)
                if allocation.guest is not None:
                    self.allocations.append(SharedCores(allocation.guest))
        return over
