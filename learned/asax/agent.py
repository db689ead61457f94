"""ASAX itself: which running job takes which waiting one, at which quota, and what is learned from how it went."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from learned.asax.knowledge import Knowledge, Update
from learned.asax.trees import Experts, State, read_experts

ROUNDING = 1e-6
"""Cores' worth of memory that sums may lose."""
LEAST_LIKELY = 1e-9
"""How likely any quota above 0 has to be to be drawn for a guest that is there."""


class Decision(NamedTuple):
    """What was decided for one running job: the quota of the guest, and how likely each expert found it."""

    application: str
    percent: int
    likelihoods: FloatArray


class Offer(NamedTuple):
    """What a running job without a guest offers: cores and memory beside it, and its decision."""

    # Its number and its cores
    host: int
    cores: int
    free_memory: float  # Memory that it leaves, in cores' worth of it
    decision: Decision  # The quota
    idle_cores: float = 0.0  # Cores that it leaves idle, which a guest may use beyond its quota: quotas are shares

    @property
    def usable_cores(self) -> float:
        """Cores that a guest can keep busy."""
        return max(self.decision.percent / 100 * self.cores, self.idle_cores)

    def fulfils(self, asked: "Asked") -> bool:
        """Whether it has the cores and the memory that a job asks for, and the cores that it keeps busy."""
        return (
            asked.cores <= self.cores
            and asked.memory <= self.free_memory + ROUNDING
            and asked.busy_cores <= self.usable_cores + ROUNDING
        )


class Asked(NamedTuple):
    """What a waiting job asks for: cores, memory in cores' worth of it, and the cores that it keeps busy on average."""

    cores: int
    memory: float = 0.0
    busy_cores: float = 0.0


class Loss(StrEnum):
    """What a host loses by its guest; the paper says it in two ways."""

    # How far it is going to pass its limit, over the limit (section 3.2)
    LIMIT = "limit"
    # How much longer its work takes at present (section 4.4: 0 where nothing is degraded)
    DEGRADATION = "degradation"


def performance_loss(run_s: float, walltime_s: float, full_loss_at: float = 1.0) -> float:
    """Loss of a job that took so long, or is going to: how far it passes its limit, in [0, 1] (section 3.2; errata).

    The loss is 1 from ``full_loss_at`` times the limit beyond it on: 1 in section 3.2, 0.5 in section 4.4.
    """
    return min(1.0, max(0.0, (run_s - walltime_s) / walltime_s) / full_loss_at)


@dataclass
class Asax:
    """The learner (Algorithm 1).

    Raises `UsageError` if the knowledge is that of other experts, or ``full_loss_at`` is not positive.
    """

    experts: Experts  # The trees
    knowledge: Knowledge  # What is known of applications; it grows
    full_loss_at: float = 1.0  # See `performance_loss`

    def __post_init__(self) -> None:
        metrics = tuple(expert.metric for expert in self.experts.experts)
        if self.knowledge.metrics != metrics:
            raise UsageError(f"the knowledge is that of experts for {self.knowledge.metrics}, not for {metrics}")
        if not self.full_loss_at > 0:
            raise UsageError(f"full_loss_at is {self.full_loss_at}, must be positive")

    @classmethod
    def untrained(
        cls,
        experts: Experts | None = None,
        update: str = Update.CUMULATIVE,
        horizon: int = 1000,
        full_loss_at: float = 1.0,
    ) -> "Asax":
        """Return a learner that knows nothing; without experts, with those of the package."""
        trees = read_experts() if experts is None else experts
        metrics = tuple(expert.metric for expert in trees.experts)
        return cls(trees, Knowledge(metrics, Update(update), horizon), full_loss_at)

    def mixture(self, application: str, state: State) -> FloatArray:
        """Return how likely each action is (line 6), shape ``(m,)``."""
        return np.asarray(self.knowledge.of(application).alpha @ self.experts.probabilities(state))

    def decide(self, application: str, state: State, rng: np.random.Generator, is_shared: bool = False) -> Decision:
        """Draw a quota for a guest of a running job (lines 4 to 7).

        Where the guest is there already, and stays, 0 is not drawn, and the smallest quota is taken where the experts
        have nothing but 0 to say.
        """
        table = self.experts.probabilities(state)
        likely = self.knowledge.of(application).alpha @ table
        if is_shared:
            likely[0] = 0.0
            likely[1] += likely.sum() <= LEAST_LIKELY
        action = int(rng.choice(len(likely), p=likely / likely.sum()))
        return Decision(application, self.experts.actions[action], table[:, action])

    def learn(self, decision: Decision, loss: float) -> bool:
        """Take the host's loss into account (lines 9 to 12), and say whether a round ended.

        Raises `UsageError` if the loss is not in [0, 1].
        """
        if not 0 <= loss <= 1:
            raise UsageError(f"the loss is {loss}, must be within 0 .. 1")
        return self.knowledge.of(decision.application).add(decision.likelihoods * loss)

    def excess_risks(self) -> dict[str, tuple[float, float]]:
        """Excess risk of each application so far, and its bound."""
        known = self.knowledge.applications.items()
        return {name: (weights.excess_risk, weights.risk_bound) for name, weights in known}


def first_fit(guests: Sequence[Asked], offers: Iterable[Offer]) -> Iterator[tuple[int, int, Decision]]:
    """Give each waiting job the first offer of a quota above 0 that has the room; yield guest, host and decision.

    An offer has the room where the host has the cores and the free memory that the guest asks for, and its quota, or
    what the host leaves idle, the cores that the guest keeps busy on average: what is offered must fulfil what a job
    needs (section 3.2). A host takes one guest; one that was asked in vain learns nothing, for without a guest there is
    no loss.
    """
    open_offers = [offer for offer in offers if offer.decision.percent > 0]
    for guest, asked in enumerate(guests):
        place = next((place for place, offer in enumerate(open_offers) if offer.fulfils(asked)), None)
        if place is not None:
            offer = open_offers.pop(place)
            yield guest, offer.host, offer.decision
