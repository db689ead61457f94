"""Scheduler ``asax``: a learner decides where guests run, and adjusts their quotas while they run (sections 3.2, 4.4).

The learner keeps weights of experts per application, and draws quotas from their weighted mixture: Algorithm 1 of the
ASAX paper, lines 1 to 13. A round ends when the risk of some expert in it exceeds 1; then the weights are updated. By
default, following the errata, ``alpha_t`` is proportional to ``exp(-gamma_t R_t)``, where R_t is the expert's risk in
all rounds so far and ``gamma_t = sqrt(2 ln n / t)``. The printed update multiplies the last weights by
``exp(-gamma r_t)``. If gamma decreases, this update may follow the wrong expert most of the time (docs/asax.md).

A file of knowledge is JSON: ``{"format": "allocopt-asax", "version": 1, "metrics": [..], "update": .., "horizon": ..,
"applications": {NAME: {"alpha": [..], "round_risk": [..], "past_risk": [..], "rounds": t, "mixture_risk": x,
"rate_sum": x}}}``.
"""

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import check_header
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import json_by_line, write_text
from allocopt.learned.asax.trees import Experts, State
from allocopt.simulator.decisions import PlaceGuest, SetQuota, Start
from allocopt.simulator.quota.execution import Progress, QuotaView, SharedCores
from allocopt.simulator.quota.scheduler import QuotaScheduler

ROUND_RISK = 1.0  # A round ends when the risk of an expert exceeds this (line 3)
FORMAT, VERSION = "allocopt-asax", 1
ARRAYS = ("alpha", "round_risk", "past_risk")
NUMBERS = ("mixture_risk", "rate_sum")
SUM_TOLERANCE = 1e-9
# If the quotas above 0 together have at most this probability, a guest that already runs gets the smallest of them
LEAST_LIKELY = 1e-9


class _Update(StrEnum):
    # Weights from the risk of all rounds, at a rate that decreases with the number of rounds
    CUMULATIVE = "cumulative"
    # Weights from the previous weights and the risk of the last round (line 12), at a constant rate
    AS_PRINTED = "as-printed"


@dataclass
class _Weights:
    """Weights of n experts; raises `UsageError` if there is no expert, or the horizon is not positive."""

    n: int
    update: _Update = _Update.CUMULATIVE
    horizon: int = 1000  # Rounds for which the constant rate of ``as-printed`` is best
    alpha: FloatArray = field(init=False)  # The weights, summing to 1, shape ``(n,)``
    # Risk of each expert in the current round, and in all finished ones, shape ``(n,)``
    round_risk: FloatArray = field(init=False)
    past_risk: FloatArray = field(init=False)
    rounds: int = field(init=False, default=0)  # Number of finished rounds
    # Risk of the mixture in all rounds: every action adds the sum of alpha at that time times the experts' risks
    mixture_risk: float = field(init=False, default=0.0)
    rate_sum: float = field(init=False, default=0.0)  # Sum of gamma over the finished rounds

    def __post_init__(self) -> None:
        if self.n < 1 or self.horizon < 1:
            raise UsageError(f"there are {self.n} experts and a horizon of {self.horizon} rounds, both must be >= 1")
        self.update = _Update(self.update)
        self.alpha = np.full(self.n, 1.0 / self.n)
        self.round_risk, self.past_risk = np.zeros(self.n), np.zeros(self.n)

    def gamma(self, t: int) -> float:
        """Return the rate of round t, counted from 1."""
        return math.sqrt(2 * math.log(self.n) / (t if self.update is _Update.CUMULATIVE else self.horizon))

    def add(self, risks: FloatArray) -> bool:
        """Add each expert's risk of an action, in [0, 1] (line 10); return whether this ended a round."""
        self.mixture_risk += float(self.alpha @ risks)
        self.round_risk += risks
        if self.round_risk.max() <= ROUND_RISK:
            return False
        self.rounds += 1
        gamma = self.gamma(self.rounds)
        self.rate_sum += gamma
        self.past_risk += self.round_risk
        if self.update is _Update.CUMULATIVE:
            logs = -gamma * self.past_risk
        else:
            logs = np.log(np.maximum(self.alpha, np.finfo(float).tiny)) - gamma * self.round_risk
        raised = np.exp(logs - logs.max())
        self.alpha = raised / raised.sum()
        self.round_risk = np.zeros(self.n)
        return True

    @property
    def excess_risk(self) -> float:
        """Risk of the mixture minus that of the best expert, over all rounds including the current one (Eq. 4)."""
        return self.mixture_risk - float((self.past_risk + self.round_risk).min())

    @property
    def risk_bound(self) -> float:
        """Bound of the excess risk, ``ln n / gamma_t + 1/2 sum gamma_s``, in round t (Theorem 1; errata)."""
        gamma = self.gamma(self.rounds + 1)
        return math.log(self.n) / gamma + (self.rate_sum + gamma) / 2 if gamma else 0.0


@dataclass
class Knowledge:
    """Weights by application, for experts with these metrics; see `_Weights`."""

    metrics: tuple[str, ...]
    update: _Update = _Update.CUMULATIVE
    horizon: int = 1000
    applications: dict[str, _Weights] = field(init=False, default_factory=dict)

    def of(self, application: str) -> _Weights:
        """Return the weights of an application; an unknown one gets equal weights."""
        if application not in self.applications:
            self.applications[application] = _Weights(len(self.metrics), self.update, self.horizon)
        return self.applications[application]

    def save(self, path: Path | str) -> None:
        """Write the weights of all applications."""
        applications = {}
        for name, weights in sorted(self.applications.items()):
            arrays = {part: [float(value) for value in getattr(weights, part)] for part in ARRAYS}
            numbers = {part: float(getattr(weights, part)) for part in NUMBERS}
            applications[name] = {**arrays, "rounds": weights.rounds, **numbers}
        header = {"format": FORMAT, "version": VERSION, "metrics": list(self.metrics)}
        told = {"update": str(self.update), "horizon": self.horizon, "applications": applications}
        write_text(Path(path), json_by_line({**header, **told}))

    @classmethod
    def load(cls, path: Path | str, metrics: tuple[str, ...]) -> "Knowledge":
        """Read a saved file; raises `BadFileError` if it is broken or its experts have other metrics."""
        path = Path(path)
        held = check_header(parse_json(read_text(path), path), path, FORMAT)
        if held.get("metrics") != list(metrics):
            raise bad_file(path, "metrics", f"are {held.get('metrics')}, must be those of the experts, {list(metrics)}")
        update, horizon, applications = held.get("update"), held.get("horizon"), held.get("applications")
        if not isinstance(update, str) or update not in list(_Update):
            raise bad_file(path, "update", f"is {shown(update)}, must be one of {', '.join(_Update)}")
        if type(horizon) is not int or horizon < 1:
            raise bad_file(path, "horizon", f"is {shown(horizon)}, must be a whole number >= 1")
        if not isinstance(applications, dict):
            raise bad_file(path, "applications", f"is {shown(applications)}, must be an object")
        knowledge = cls(metrics, _Update(update), horizon)
        for name, one in applications.items():
            weights, place = knowledge.of(name), f"applications.{name}"
            if not isinstance(one, Mapping) or set(one) != {*ARRAYS, *NUMBERS, "rounds"}:
                raise bad_file(path, place, f"must have the keys {', '.join((*ARRAYS, 'rounds', *NUMBERS))}")
            for key in ARRAYS:
                setattr(weights, key, _array(one[key], weights.n, f"{place}.{key}", path))
            if abs(float(weights.alpha.sum()) - 1) > SUM_TOLERANCE:
                raise bad_file(path, f"{place}.alpha", f"sums to {weights.alpha.sum():g}, must sum to 1")
            if type(one["rounds"]) is not int or one["rounds"] < 0:
                raise bad_file(path, f"{place}.rounds", f"is {shown(one['rounds'])}, must be a whole number >= 0")
            weights.rounds = one["rounds"]
            weights.mixture_risk, weights.rate_sum = (
                float(_array([one[key]], 1, f"{place}.{key}", path)[0]) for key in NUMBERS
            )
        return knowledge


def _array(held: Any, count: int, place: str, path: Path) -> FloatArray:
    good = isinstance(held, list) and len(held) == count
    if not good or not all(type(value) in (int, float) and 0 <= value < np.inf for value in held):
        raise bad_file(path, place, f"must hold {count} numbers >= 0")
    return np.array(held, dtype=np.float64)


class Decision(NamedTuple):
    """A quota that was drawn for the guest of a running job, and the probability that each expert gives it."""

    application: str
    percent: int
    likelihoods: FloatArray


class Loss(StrEnum):
    """Definition of the loss that a guest causes its host; the paper gives two."""

    # Expected excess of the run time over the limit, divided by the limit (section 3.2)
    LIMIT = "limit"
    # Current slowdown of the host minus 1 (section 4.4)
    DEGRADATION = "degradation"


@dataclass
class Asax:
    """The learner (Algorithm 1).

    Raises `UsageError` if the knowledge belongs to other experts, or a number is out of range.
    """

    experts: Experts  # The trees
    knowledge: Knowledge  # Weights learned so far by application; the learner updates them
    full_loss_at: float = 1.0  # Excess over the limit, divided by the limit, that counts as a loss of 1; positive

    def __post_init__(self) -> None:
        own, known = self.experts.metrics, self.knowledge.metrics
        if own != known:
            raise UsageError(f"the knowledge was learned by experts for {known}, must be for {own}")
        if not self.full_loss_at > 0:
            raise UsageError(f"full_loss_at is {self.full_loss_at}, must be positive")

    @classmethod
    def untrained(cls, experts: Experts | None = None, full_loss_at: float = 1.0) -> "Asax":
        """Return a learner without knowledge; the default experts are those of the package."""
        trees = experts or Experts.read()
        return cls(trees, Knowledge(trees.metrics), full_loss_at)

    def mixture(self, application: str, state: State) -> FloatArray:
        """Return the probability of each action (line 6), shape ``(m,)``."""
        return np.asarray(self.knowledge.of(application).alpha @ self.experts.probabilities(state))

    def decide(self, application: str, state: State, rng: np.random.Generator, is_shared: bool = False) -> Decision:
        """Draw a quota for a guest of a running job (lines 4 to 7).

        A guest that already runs there (``is_shared``) stays: 0 is never drawn, and if all experts choose 0, it gets
        the smallest quota.
        """
        table = self.experts.probabilities(state)
        likely = self.knowledge.of(application).alpha @ table
        if is_shared:
            likely[0] = 0.0
            likely[1] += likely.sum() <= LEAST_LIKELY
        action = int(rng.choice(len(likely), p=likely / likely.sum()))
        return Decision(application, self.experts.actions[action], table[:, action])

    def performance_loss(self, run_s: float, walltime_s: float) -> float:
        """Return the excess over the limit, divided by the limit and by ``full_loss_at``, at most 1 (3.2; errata)."""
        return min(1.0, max(0.0, (run_s - walltime_s) / walltime_s) / self.full_loss_at)

    def learn(self, decision: Decision, loss: float) -> bool:
        """Learn from the host's loss, in [0, 1] (lines 9 to 12); return whether a round ended."""
        if not 0 <= loss <= 1:
            raise UsageError(f"the loss is {loss}, must be within 0 .. 1")
        return self.knowledge.of(decision.application).add(decision.likelihoods * loss)

    def excess_risks(self) -> dict[str, tuple[float, float]]:
        """Return the excess risk of each application so far, and its bound."""
        known = self.knowledge.applications.items()
        return {name: (weights.excess_risk, weights.risk_bound) for name, weights in known}


ROUNDING = 1e-6  # Tolerance for rounding errors, in cores and in memory per core


@dataclass
class AsaxScheduler(QuotaScheduler):
    """Start jobs by EASY; each job that still waits becomes the guest of the first running job that has room for it.

    Running jobs are tried in the order of their idle cores, the most first. For each of them, the learner draws an
    offer: a quota, or 0 for a refusal. The offer holds until the experts see the running job in another state. While
    jobs share cores, the learner checks them every ``period_s`` and at every event: it learns from the loss that is now
    expected for the host, and draws a new quota. A guest stays on its host until it ends.
    """

    asax: Asax = field(default_factory=Asax.untrained)  # The learner; it keeps learning
    period_s: float = 60.0  # Seconds between two checks of jobs that share cores, positive
    loss: str = Loss.LIMIT  # Definition of a host's loss, a `Loss`
    # Weight of the loss of a refusal. Whenever a waiting job would fit on the idle cores of the host, the loss is this
    # weight times the idle share of the host's cores. 0 in the paper
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
                # One guest per host. The learner learns nothing from hosts that get no guest: they have no loss.
                one, decision = offers.pop(place)
                self._shared[one.number] = decision
                yield PlaceGuest(job, one.number, decision.percent)

    def ended(self, view: QuotaView, allocation: SharedCores) -> None:
        self._offers.pop(allocation.number, None)
        decision = self._shared.pop(allocation.number, None)
        if decision is not None:
            host = allocation.host
            self.asax.learn(decision, self._loss(view.now - host.start_s, host))

    def _offer(self, view: QuotaView, allocation: SharedCores) -> Decision:
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
    # Cores of a waiting job, its memory in units of the memory per core, and its mean number of busy cores.
    job = view.jobs[number].job
    return job.cores, job.peak_memory() * job.cores, job.mean("cpu") * job.cores


def _fulfils(host: SharedCores, decision: Decision, cores: int, memory: float, busy: float) -> bool:
    # Whether a host can serve a job (3.2). A guest can use all idle cores of the host, even beyond its quota.
    usable = max(decision.percent / 100 * host.cores, host.idle_cores())
    return cores <= host.cores and memory <= host.free_memory() + ROUNDING and busy <= usable + ROUNDING


def _state_of(now: float, allocation: SharedCores) -> State:
    host = allocation.host
    return State(host.stage.cpu, host.stage.memory, host.stage.kind, host.interval(now), host.happiness(now))


@dataclass
class AsaxPolicy(AsaxScheduler):
    """`AsaxScheduler` that reads experts and knowledge from files.

    Raises `BadFileError` if a file is invalid, `UsageError` if an option is out of range.
    """

    experts: str = ""  # File of the experts' trees; empty for those of the package
    knowledge: str = ""  # File with knowledge of earlier runs; empty for none
    # File to which `remember` writes the knowledge; if it exists, it must be a file of knowledge. Empty for none.
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
            # Check the file before a simulation of hours, and never overwrite another kind of file.
            Knowledge.load(self.save_knowledge, asax.knowledge.metrics)

    def remember(self) -> None:
        """Write the knowledge, if a file was given."""
        if self.save_knowledge:
            self.asax.knowledge.save(self.save_knowledge)
