"""The state of a simulation with quotas: allocations, the jobs on them, and how far each job is."""

from dataclasses import dataclass, field, replace

import numpy as np

from allocopt.problems.coallocation.interference import Interference, Sharing, Tenant, slowdowns
from allocopt.traces.asax_queue import QueuedJob
from allocopt.traces.job_profile import ProfiledJob, Stage

LEAST_S = 1e-6
"""Seconds of work below which a stage is over."""

LEAST_NEEDED_S = 1e-9
"""Seconds that a job needs at least, where something is divided by them."""

ROUNDING = 1e-9
"""Share of a memory that sums of shares may lose."""


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
        stage, left = self.left[0]
        self.left[0] = (stage, left - seconds / self.slowdown)
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
        return left / max(self.needed_s, LEAST_NEEDED_S)

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
class Allocation:
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
    """What a scheduler sees."""

    now: float  # time in seconds
    cores: int
    jobs: tuple[QueuedJob, ...]  # all jobs, by their numbers
    queue: list[int]  # numbers of the waiting jobs in the order of their submission
    allocations: list[Allocation]  # the allocations, oldest first; schedulers must not change them
    rng: np.random.Generator

    @property
    def free_cores(self) -> int:
        """Cores that nobody owns."""
        return self.cores - sum(one.cores for one in self.allocations)
