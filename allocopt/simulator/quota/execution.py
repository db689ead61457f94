"""Execution model ``quota``: jobs progress by the quotas they hold, and by how their present stages overlap.

Allocations, the jobs on them and how far each is; and what such a simulation gives: the schedule, what jobs keep busy
and are entitled to, how long they share.
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
ROUNDING = 1e-9  # share of a memory that sums of shares may lose


@dataclass
class Progress:
    """A job that runs."""

    number: int  # its number in the queue of all jobs
    queued: QueuedJob  # what it is
    start_s: float
    # Stages that are ahead, and seconds of work that are left of each.
    left: list[tuple[Stage, float]] = field(init=False)
    slowdown: float = 1.0  # seconds that a second of its work takes now

    def __post_init__(self) -> None:
        job = self.queued.job
        self.left = [(stage, stage.share * job.remaining_s) for stage in job.profile]

    @property
    def stage(self) -> Stage:
        """The stage that it is in."""
        return self.left[0][0]

    @property
    def work_left_s(self) -> float:
        """Seconds for which it would still run alone."""
        return sum(seconds for _, seconds in self.left)

    @property
    def busy_cores(self) -> float:
        """Cores that it keeps busy now."""
        return self.stage.cpu * self.queued.job.cores / self.slowdown

    @property
    def used_memory(self) -> float:
        """Memory that it occupies now, in cores' worth of it."""
        return self.stage.memory * self.queued.job.cores

    @property
    def is_over(self) -> bool:
        """Whether all its work is done."""
        return len(self.left) == 1 and self.left[0][1] <= LEAST_S

    def advance(self, seconds: float) -> None:
        """Let time pass; a stage that is done is left, the last one when the job ends."""
        self.left[0] = (self.stage, self.left[0][1] - seconds / self.slowdown)
        if self.left[0][1] <= LEAST_S and len(self.left) > 1:
            self.left.pop(0)

    def until_next_s(self) -> float:
        """Seconds until its present stage ends at the present rate."""
        return self.left[0][1] * self.slowdown

    def interval(self, now: float) -> float:
        """Share of its duration at the present rate that is behind it (ASAX paper, section 3.1)."""
        elapsed = now - self.start_s
        return elapsed / (elapsed + self.needed_s)

    def happiness(self, now: float) -> float:
        """Time left until its limit over the time that it still needs at the present rate (Eq. 1; errata)."""
        left = max(0.0, self.queued.job.walltime_s - (now - self.start_s))
        return left / max(self.needed_s, 1e-9)

    @property
    def needed_s(self) -> float:
        """Seconds for which it still runs at the present rate."""
        return self.work_left_s * self.slowdown

    def remaining(self, now: float) -> ProfiledJob:
        """Return what is ahead of it as a job of a co-allocation problem."""
        total, job = self.work_left_s, self.queued.job
        profile = tuple(replace(stage, share=seconds / total) for stage, seconds in self.left)
        limit = max(0.0, job.walltime_s - (now - self.start_s))
        return replace(job, profile=profile, remaining_s=total, walltime_s=limit)


@dataclass
class SharedCores:
    """Cores that one job owns, and may share with a guest."""

    host: Progress  # the job that owns it
    guest: Progress | None = None  # the job that shares it, if one does
    percent: int = 0  # the guest's quota in percent of the cores

    @property
    def number(self) -> int:
        """Its number: that of its owner, for no job owns another one before or after it."""
        return self.host.number

    @property
    def cores(self) -> int:
        """Cores of the allocation: those that its owner asked for."""
        return self.host.queued.job.cores

    @property
    def jobs(self) -> list[Progress]:
        """The jobs on it, the owner first."""
        return [self.host] if self.guest is None else [self.host, self.guest]

    def takes(self, guest: ProfiledJob, heeds_memory: bool = True) -> bool:
        """Whether it has no guest, and the cores and, where that is heeded, the memory that one asks for."""
        if self.guest is not None or guest.cores > self.cores:
            return False
        held = self.host.queued.job.peak_memory() + guest.peak_memory() * guest.cores / self.cores
        return held <= 1.0 + ROUNDING or not heeds_memory

    def free_memory(self) -> float:
        """Memory that its owner never occupies, in cores' worth of it."""
        return self.cores * (1.0 - self.host.queued.job.peak_memory())

    def idle_cores(self) -> float:
        """Cores that its owner leaves idle in its present stage."""
        return (1.0 - self.host.stage.cpu) * self.cores

    def set_rates(self, sharing: Sharing, interference: Interference) -> None:
        """Set how fast its jobs are in their present stages."""
        quotas = [1.0 - self.percent / 100, self.percent / 100] if self.guest is not None else [1.0]
        tenants = [Tenant(one.queued.job.cores, one.stage, quota) for one, quota in zip(self.jobs, quotas, strict=True)]
        for one, slowdown in zip(self.jobs, slowdowns(tenants, self.cores, sharing, interference), strict=True):
            one.slowdown = float(slowdown)

    def allotted_cores(self) -> list[float]:
        """Cores that each job on it is entitled to: what its quota gives it, and no more than it asked for."""
        if self.guest is None:
            return [float(self.cores)]
        shared = self.percent / 100 * self.cores
        return [self.cores - shared, min(shared, float(self.guest.queued.job.cores))]


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Queue and allocations as a scheduler sees them."""

    now: float  # time in seconds
    cores: int
    jobs: tuple[QueuedJob, ...]  # all jobs, by their numbers
    queue: list[int]  # numbers of the waiting jobs in the order of their submission
    allocations: list[SharedCores]  # the allocations, oldest first; schedulers must not change them
    rng: np.random.Generator

    @property
    def free_cores(self) -> int:
        """Cores that nobody owns."""
        return self.cores - sum(one.cores for one in self.allocations)

    def easy_starts(self) -> Iterator[Start]:
        """Start jobs in order while they fit; then those behind that do not delay the first one that does not."""
        while self.queue and self.jobs[self.queue[0]].job.cores <= self.free_cores:
            yield Start(self.queue[0])
        if not self.queue:
            return
        # When as many cores as the first job asks for are expected to be free, and how many more are then.
        releases = []
        for one in self.allocations:
            kept, host_end = 0, max(self.now, one.host.start_s + one.host.queued.job.walltime_s)
            if one.guest is not None:
                # It keeps its own.
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
    def of(cls, jobs: int) -> "_Accounts":
        return cls(np.full(jobs, NOBODY), np.zeros(jobs, dtype=np.int64), *(np.zeros(jobs) for _ in range(8)))

    def note(self, allocation: SharedCores, seconds: float) -> None:
        # Some seconds in which nothing changes on an allocation.
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
        self.allocations: list[SharedCores] = []
        self.accounts = _Accounts.of(len(self.jobs))
        # Seconds after which the scheduler is called again while jobs share; None for when something happens only.
        self.period_s: float | None = None
        self._sharing, self._interference, self._now = sharing, interference or Interference(), -np.inf
        self._known: set[int] = set()
        self._speeds: dict[int, float] = {}

    def follow(self, now: float, running: Sequence[int], guests: Mapping[int, Guest]) -> list[SharedCores]:
        """Follow the simulation to a time, and to who runs where then; return the allocations whose owners ended."""
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
