"""The slow twin of simulations with quotas: one loop that looks at everything at every event."""

from collections.abc import Sequence

import numpy as np

from allocopt.errors import UsageError
from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.simulator.quota.execution import Accounts, Allocation, Progress, QuotaSchedule, QuotaView
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.scheduler import Decision, PlaceGuest, Start
from allocopt.traces.applications import QueuedJob, queue_workload

SAME_TIME_S = 1e-9


def simulate_slowly(
    jobs: Sequence[QueuedJob],
    cores: int,
    scheduler: QuotaScheduler,
    seed: int = 0,
    sharing: Sharing = Sharing.SHARES,
    interference: Interference | None = None,
) -> QuotaSchedule:
    """Simulate a queue to its end; see `simulate`."""
    simulation = _Simulation(tuple(jobs), cores, scheduler, seed, sharing, interference or Interference())
    while simulation.step():
        pass
    return simulation.result()


class _Simulation:
    """One run."""

    def __init__(
        self,
        jobs: tuple[QueuedJob, ...],
        cores: int,
        scheduler: QuotaScheduler,
        seed: int,
        sharing: Sharing,
        interference: Interference,
    ) -> None:
        for one in jobs:
            if one.job.cores > cores:
                raise UsageError(f"job {one.job.id!r} asks for {one.job.cores} cores, the cluster has {cores}")
        n = len(jobs)
        self.jobs, self.cores, self.scheduler = jobs, cores, scheduler
        self.sharing, self.interference = sharing, interference
        self.coming = sorted(range(n), key=lambda job: (jobs[job].submit_s, job))
        self.now, self.asked_s = 0.0, 0.0
        self.queue: list[int] = []
        self.allocations: list[Allocation] = []
        self.rng = np.random.default_rng(seed)
        self.start, self.end = np.full(n, np.nan), np.full(n, np.nan)
        self.accounts = Accounts.of(n)

    def step(self) -> bool:
        """Go on to the next event, take it, and let the scheduler decide; False where all jobs have ended."""
        self._submit()
        self._ask()
        if not self.allocations and not self.coming:
            if self.queue:
                raise UsageError(f"scheduler {self.scheduler.name!r} leaves {len(self.queue)} jobs waiting for ever")
            return False
        self._pass(self._next_s() - self.now)
        for allocation in list(self.allocations):
            self._settle(allocation)
        return True

    def _submit(self) -> None:
        """Let jobs that are due join the queue."""
        while self.coming and self.jobs[self.coming[0]].submit_s <= self.now + SAME_TIME_S:
            self.queue.append(self.coming.pop(0))

    def _view(self) -> QuotaView:
        return QuotaView(self.now, self.cores, self.jobs, self.queue, self.allocations, self.rng)

    def _ask(self) -> None:
        """Take the scheduler's decisions one after the other."""
        self.asked_s = self.now
        for decision in self.scheduler.share(self._view()):
            self._take(decision)

    def _take(self, decision: Decision) -> None:
        """Take a decision, if it can be."""
        if isinstance(decision, Start):
            self._start_own(decision.job)
            return
        allocation = next((one for one in self.allocations if one.number == decision.host), None)
        if allocation is None:
            raise UsageError(f"there is no allocation {decision.host}")
        if not 0 < decision.percent <= LARGEST_PERCENT:
            raise UsageError(f"the quota is {decision.percent} %, must be above 0 and at most {LARGEST_PERCENT} %")
        if isinstance(decision, PlaceGuest):
            self._place(decision.job, allocation)
        elif allocation.guest is None:
            raise UsageError(f"allocation {allocation.number} has no guest whose quota could change")
        allocation.percent = decision.percent
        allocation.set_rates(self.sharing, self.interference)

    def _begin(self, job: int) -> Progress:
        """Take a job out of the queue."""
        if job not in self.queue:
            raise UsageError(f"job number {job} does not wait")
        self.queue.remove(job)
        self.start[job] = self.now
        return Progress(job, self.jobs[job], self.now)

    def _start_own(self, job: int) -> None:
        """Start a job on cores of its own."""
        free = self._view().free_cores
        if self.jobs[job].job.cores > free:
            raise UsageError(f"job number {job} asks for {self.jobs[job].job.cores} cores, {free} are free")
        self._own(self._begin(job))

    def _own(self, progress: Progress) -> None:
        """Give a job an allocation of its own."""
        allocation = Allocation(progress)
        allocation.set_rates(self.sharing, self.interference)
        self.allocations.append(allocation)

    def _place(self, job: int, allocation: Allocation) -> None:
        """Start a job as a guest."""
        if allocation.guest is not None:
            raise UsageError(f"allocation {allocation.number} has a guest already")
        if self.jobs[job].job.cores > allocation.cores:
            fault = f"asks for {self.jobs[job].job.cores} cores, allocation {allocation.number} has {allocation.cores}"
            raise UsageError(f"job number {job} {fault}")
        allocation.guest = self._begin(job)
        self.accounts.host_of[job] = allocation.host.number
        self.accounts.guests[allocation.host.number] += 1

    def _next_s(self) -> float:
        """When something happens: a submission, the end of a stage, or the end of the scheduler's period."""
        times = [self.now + one.until_next_s() for allocation in self.allocations for one in allocation.jobs]
        if self.coming:
            times.append(self.jobs[self.coming[0]].submit_s)
        period = self.scheduler.period_s
        if period is not None and any(one.guest is not None for one in self.allocations):
            times.append(self.asked_s + period)
        return max(self.now, min(times))

    def _pass(self, seconds: float) -> None:
        """Let time pass."""
        for allocation in self.allocations:
            self.accounts.owned_s[allocation.host.number] += seconds
            self.accounts.hosting_s[allocation.host.number] += seconds * (allocation.guest is not None)
            speeds = [1.0 / one.slowdown for one in allocation.jobs]
            self.accounts.lost_core_s[allocation.host.number] += seconds * allocation.cores * (1.0 - speeds[0])
            for guest, speed in zip(allocation.jobs[1:], speeds[1:], strict=True):
                self.accounts.gained_core_s[guest.number] += seconds * guest.queued.job.cores * speed
            for one, allotted in zip(allocation.jobs, allocation.allotted_cores(), strict=True):
                self.accounts.busy_core_s[one.number] += one.busy_cores * seconds
                self.accounts.allotted_core_s[one.number] += allotted * seconds
                self.accounts.used_core_s[one.number] += min(one.busy_cores, allotted) * seconds
                self.accounts.memory_core_s[one.number] += one.used_memory * seconds
                one.advance(seconds)
        self.now += seconds

    def _settle(self, allocation: Allocation) -> None:
        """Take jobs that have ended off an allocation, and set its rates anew."""
        guest = allocation.guest
        if guest is not None and guest.is_over:
            self.end[guest.number] = self.now
            allocation.guest, allocation.percent = None, 0
        if allocation.host.is_over:
            self.end[allocation.host.number] = self.now
            self.scheduler.ended(self._view(), allocation)
            self.allocations.remove(allocation)
            if allocation.guest is not None:
                self._own(allocation.guest)
            return
        allocation.set_rates(self.sharing, self.interference)

    def result(self) -> QuotaSchedule:
        """Return what happened."""
        workload = queue_workload(self.jobs)
        release = workload.submit.copy()
        return QuotaSchedule(
            workload, self.cores, release, self.start, self.end, jobs=self.jobs, accounts=self.accounts
        )
