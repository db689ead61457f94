"""Execution model ``quota``: jobs progress by the quotas they hold, and by how their present stages overlap."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

import numpy as np

from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.simulator.execution import Change
from allocopt.simulator.guests import Guest
from allocopt.simulator.quota.schedule import Accounts, QuotaSchedule
from allocopt.simulator.quota.state import Allocation, Progress
from allocopt.simulator.schedule import Schedule
from allocopt.traces.asax_queue import QueuedJob


class QuotaExecution:
    """Follows the allocations of a simulation, and gives every job the speed that it has in its present stage.

    Parameters
    ----------
    jobs
        The jobs, by their numbers.
    sharing, interference
        How jobs that share slow each other down.
    """

    name = "quota"

    def __init__(
        self,
        jobs: Sequence[QueuedJob],
        sharing: Sharing = Sharing.SHARES,
        interference: Interference | None = None,
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
