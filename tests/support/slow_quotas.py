"""The slow twin of simulations with quotas: one loop that looks at everything at every event."""

from collections.abc import Sequence

import numpy as np

from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.simulator.decisions import Decision, PlaceGuest, SetQuota, Start
from allocopt.simulator.quota.execution import Progress, QuotaExecution, QuotaSchedule, QuotaView, SharedCores
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.traces.applications import QueuedJob, queue_workload

SAME_TIME_S = 1e-9


def simulate_slowly(
    jobs: Sequence[QueuedJob], cores: int, scheduler: QuotaScheduler, seed: int = 0, sharing: Sharing = Sharing.SHARES
) -> QuotaSchedule:
    """Simulate a queue to its end under a scheduler that decides nothing impossible; see `simulate`."""
    simulation = _Simulation(tuple(jobs), cores, scheduler, seed, sharing)
    while simulation.step():
        pass
    workload = queue_workload(simulation.jobs)
    times = workload.submit.copy(), simulation.start, simulation.end
    return QuotaSchedule(workload, cores, *times, jobs=simulation.jobs, accounts=simulation.accounts)


class _Simulation:
    """One run."""

    def __init__(
        self, jobs: tuple[QueuedJob, ...], cores: int, scheduler: QuotaScheduler, seed: int, sharing: Sharing
    ) -> None:
        n = len(jobs)
        self.jobs, self.cores, self.scheduler, self.sharing = jobs, cores, scheduler, sharing
        self.coming = sorted(range(n), key=lambda job: (jobs[job].submit_s, job))
        self.now, self.asked_s = 0.0, 0.0
        self.queue: list[int] = []
        self.allocations: list[SharedCores] = []
        self.rng = np.random.default_rng(seed)
        self.start, self.end = np.full(n, np.nan), np.full(n, np.nan)
        self.accounts = QuotaExecution(jobs).accounts

    def step(self) -> bool:
        """Go on to the next event, take it, and let the scheduler decide; False where all jobs have ended."""
        while self.coming and self.jobs[self.coming[0]].submit_s <= self.now + SAME_TIME_S:
            self.queue.append(self.coming.pop(0))
        self.asked_s = self.now
        for decision in self.scheduler.share(self._view()):
            self._take(decision)
        if not self.allocations and not self.coming:
            return False
        self._pass(self._next_s() - self.now)
        for allocation in list(self.allocations):
            self._settle(allocation)
        return True

    def _view(self) -> QuotaView:
        return QuotaView(self.now, self.cores, self.jobs, self.queue, self.allocations, self.rng)

    def _take(self, decision: Decision) -> None:
        if isinstance(decision, Start):
            self._own(self._begin(decision.job))
            return
        assert isinstance(decision, PlaceGuest | SetQuota)
        allocation = next(one for one in self.allocations if one.number == decision.host)
        if isinstance(decision, PlaceGuest):
            allocation.guest = self._begin(decision.job)
            self.accounts.host_of[decision.job] = allocation.number
            self.accounts.guests[allocation.number] += 1
        allocation.percent = decision.percent
        allocation.set_rates(self.sharing, Interference())

    def _begin(self, job: int) -> Progress:
        """Take a job out of the queue."""
        self.queue.remove(job)
        self.start[job] = self.now
        return Progress(job, self.jobs[job], self.now)

    def _own(self, progress: Progress) -> None:
        """Give a job an allocation of its own."""
        allocation = SharedCores(progress)
        allocation.set_rates(self.sharing, Interference())
        self.allocations.append(allocation)

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

    def _settle(self, allocation: SharedCores) -> None:
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
        allocation.set_rates(self.sharing, Interference())
