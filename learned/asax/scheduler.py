"""Scheduler ``asax``: guests by the learner, quotas set anew while jobs share (ASAX paper, sections 3.2 and 4.4)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from allocopt.simulator.quota.decisions import PlaceGuest, QuotaDecision, SetQuota
from allocopt.simulator.quota.space_sharing import easy_starts
from allocopt.simulator.quota.state import Allocation, Progress, QuotaView
from learned.asax.agent import Asax, Asked, Candidate, Decision, performance_loss
from learned.asax.trees import State


@dataclass
class AsaxScheduler:
    """Space sharing, and each job that still waits beside the first one that the learner gives a quota of.

    Running jobs are asked by the cores that they leave idle now, the most first. While jobs share, the learner looks at
    them again every ``period_s`` and whenever something happens: the loss that is foreseen for the host at the present
    rate is what its last quota brought, and a new quota is drawn. A guest is not sent away.

    Parameters
    ----------
    asax
        The learner; it goes on learning.
    period_s
        Seconds between two looks.
    """

    asax: Asax = field(default_factory=Asax.untrained)
    period_s: float | None = 60.0
    _decisions: dict[int, Decision] = field(init=False, default_factory=dict)

    name: ClassVar[str] = "asax"

    def schedule(self, view: QuotaView) -> Iterator[QuotaDecision]:
        """Start what EASY starts, set quotas anew, then place guests; see `QuotaScheduler.schedule`."""
        shared = [one for one in view.allocations if one.guest is not None]
        there = {one.number for one in shared}
        self._decisions = {number: decision for number, decision in self._decisions.items() if number in there}
        for one in shared:
            yield SetQuota(one.number, self._look_again(view, one))
        yield from easy_starts(view)
        hosts = sorted((one for one in view.allocations if one.guest is None), key=lambda one: -one.idle_cores())
        candidates = [(one.number, candidate_of(view.now, one)) for one in hosts]
        queue = list(view.queue)
        waiting = (view.jobs[job].job for job in queue)
        asked = [Asked(job.cores, job.peak_memory() * job.cores) for job in waiting]
        for guest, host, decision in self.asax.first_fit(asked, candidates, view.rng):
            self._decisions[host] = decision
            yield PlaceGuest(queue[guest], host, decision.percent)

    def ended(self, view: QuotaView, allocation: Allocation) -> None:
        """Learn from the run time that the owner of an allocation really had."""
        decision = self._decisions.pop(allocation.number, None)
        if decision is not None:
            host = allocation.host
            self.asax.learn(decision, self._loss(view.now - host.start_s, host))

    def _look_again(self, view: QuotaView, allocation: Allocation) -> int:
        """Learn from the last quota, and draw the next one."""
        host = allocation.host
        foreseen = view.now - host.start_s + host.work_left_s * host.slowdown
        last = self._decisions.get(allocation.number)
        if last is not None:
            self.asax.learn(last, self._loss(foreseen, host))
        candidate = candidate_of(view.now, allocation)
        decision = self.asax.decide(candidate.application, candidate.state, view.rng, is_shared=True)
        self._decisions[allocation.number] = decision
        return decision.percent

    def _loss(self, run_s: float, host: Progress) -> float:
        """Loss of a host that runs so long."""
        return performance_loss(run_s, host.queued.job.walltime_s, self.asax.full_loss_at)


def candidate_of(now: float, allocation: Allocation) -> Candidate:
    """Return what the experts see of an allocation's owner: its demands now, its progress, its happiness."""
    host = allocation.host
    elapsed, needed = now - host.start_s, host.work_left_s * host.slowdown
    left = max(0.0, host.queued.job.walltime_s - elapsed)
    state = State(
        host.stage.cpu, host.stage.memory, host.stage.kind, elapsed / (elapsed + needed), left / max(needed, 1e-9)
    )
    free = allocation.cores * (1.0 - host.queued.job.peak_memory())
    return Candidate(host.queued.application, allocation.cores, state, free)
