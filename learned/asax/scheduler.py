"""Scheduler ``asax``, which places guests by the learner and sets quotas anew while jobs share (sections 3.2, 4.4)."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import ClassVar

from allocopt.errors import UsageError
from allocopt.simulator.quota.execution import Allocation, Progress, QuotaView
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.scheduler import PlaceGuest, SetQuota, Start
from learned.asax.agent import Asax, Decision, Knowledge, Loss
from learned.asax.trees import Experts, State

ROUNDING = 1e-6  # Cores, and cores' worth of memory, that sums may lose


@dataclass
class AsaxScheduler(QuotaScheduler):
    """Start jobs by EASY, and place those that still wait beside the first running one that offers quota and room.

    Running jobs are looked at by the cores that they leave idle, the most first. An offer is drawn once, and again when
    the experts see the job in another state, so that a refusal holds. While jobs share, the learner looks at them every
    ``period_s`` and whenever something happens: the loss that is foreseen for the host is what its last quota brought,
    and a new quota is drawn. A guest is not sent away.
    """

    asax: Asax = field(default_factory=Asax.untrained)  # The learner; it goes on learning
    period_s: float = 60.0  # Seconds between two looks at jobs that share, positive
    loss: str = Loss.LIMIT  # What a host loses, a `Loss`
    # Loss of a refusal at every look at which a job waits that would keep no more cores busy than the host
    # leaves idle, over the share of its cores that it does; the paper has 0
    idle_weight: float = 0.0
    _shared: dict[int, Decision] = field(init=False, default_factory=dict, repr=False)
    _offers: dict[int, tuple[Hashable, Decision]] = field(init=False, default_factory=dict, repr=False)

    name: ClassVar[str] = "asax"

    def share(self, view: QuotaView) -> Iterator[PlaceGuest | SetQuota | Start]:
        shared = [one for one in view.allocations if one.guest is not None]
        there = {one.number for one in shared}
        self._shared = {number: decision for number, decision in self._shared.items() if number in there}
        for one in shared:
            host, last = one.host, self._shared.get(one.number)
            if last is not None:
                self.asax.learn(last, self._loss(view.now - host.start_s + host.needed_s, host))
            decision = self.asax.decide(host.queued.application, _state_of(view.now, one), view.rng, is_shared=True)
            self._shared[one.number] = decision
            yield SetQuota(one.number, decision.percent)
        asked = [_asked(view, job) for job in view.queue] if self.idle_weight else []
        for one in view.allocations:
            if asked and one.guest is None and one.number in self._offers:
                refused = self._offers[one.number][1]
                if refused.percent == 0 and any(_fulfils(one, refused, *needs) for needs in asked):
                    self.asax.learn(refused, min(1.0, self.idle_weight * one.idle_cores() / one.cores))
        yield from view.easy_starts()
        if not view.queue:
            return
        hosts = sorted((one for one in view.allocations if one.guest is None), key=lambda one: -one.idle_cores())
        offers = [(one, decision) for one in hosts if (decision := self._offer(view, one)).percent > 0]
        for job in list(view.queue):
            needs = _asked(view, job)
            place = next((i for i, (one, quota) in enumerate(offers) if _fulfils(one, quota, *needs)), None)
            if place is not None:
                # One guest a host. One that was asked in vain learns nothing: without a guest nothing is lost.
                one, decision = offers.pop(place)
                self._shared[one.number] = decision
                yield PlaceGuest(job, one.number, decision.percent)

    def ended(self, view: QuotaView, allocation: Allocation) -> None:
        self._offers.pop(allocation.number, None)
        decision = self._shared.pop(allocation.number, None)
        if decision is not None:
            host = allocation.host
            self.asax.learn(decision, self._loss(view.now - host.start_s, host))

    def _offer(self, view: QuotaView, allocation: Allocation) -> Decision:
        state, application = _state_of(view.now, allocation), allocation.host.queued.application
        leaves = self.asax.experts.leaves(state)
        known = self._offers.get(allocation.number)
        if known is None or known[0] != leaves:
            known = leaves, self.asax.decide(application, state, view.rng)
            self._offers[allocation.number] = known
        return known[1]

    def _loss(self, run_s: float, host: Progress) -> float:
        if self.loss == Loss.DEGRADATION:
            return self.asax.performance_loss(host.slowdown, 1.0)
        return self.asax.performance_loss(run_s, host.queued.job.walltime_s)


def _asked(view: QuotaView, number: int) -> tuple[int, float, float]:
    """Return a waiting job's cores, its memory in cores' worth of it, and the cores that it keeps busy on average."""
    job = view.jobs[number].job
    return job.cores, job.peak_memory() * job.cores, job.mean("cpu") * job.cores


def _fulfils(host: Allocation, decision: Decision, cores: int, memory: float, busy: float) -> bool:
    """Whether a host has what a job asks for (3.2); quotas are shares, so that its idle cores count beyond them."""
    usable = max(decision.percent / 100 * host.cores, host.idle_cores())
    return cores <= host.cores and memory <= host.free_memory() + ROUNDING and busy <= usable + ROUNDING


def _state_of(now: float, allocation: Allocation) -> State:
    """Return what the experts see of an allocation's owner: its demands now, its progress, its happiness."""
    host = allocation.host
    return State(host.stage.cpu, host.stage.memory, host.stage.kind, host.interval(now), host.happiness(now))


@dataclass
class AsaxPolicy(AsaxScheduler):
    """`AsaxScheduler` with files; raises `BadFileError` for a wrong one, `UsageError` if an option is out of range."""

    experts: str = ""  # File of the experts' trees; empty for those of the package
    knowledge: str = ""  # File of what was learned before; empty for nothing
    # File that `remember` writes, the same or another one; one that is there must be such a file. Empty for
    # none.
    save_knowledge: str = ""
    full_loss_at: float = 1.0  # See `Asax`
    asax: Asax = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for what in ("full_loss_at", "period_s"):
            if not getattr(self, what) > 0:
                raise UsageError(f"{what} is {getattr(self, what):g}, must be positive")
        if self.loss not in list(Loss):
            raise UsageError(f"loss is {self.loss!r}, must be one of {', '.join(Loss)}")
        if not 0 <= self.idle_weight < inf:
            raise UsageError(f"idle_weight is {self.idle_weight:g}, must not be negative")
        self.asax = asax = Asax.untrained(Experts.read(self.experts or None), full_loss_at=self.full_loss_at)
        if self.knowledge:
            asax.knowledge = Knowledge.load(self.knowledge, asax.knowledge.metrics)
        if self.save_knowledge and Path(self.save_knowledge).exists():
            # What would be lost is told before hours are simulated, and nothing else is overwritten.
            Knowledge.load(self.save_knowledge, asax.knowledge.metrics)

    def remember(self) -> None:
        """Write what was learned, if a file was given."""
        if self.save_knowledge:
            self.asax.knowledge.save(self.save_knowledge)
