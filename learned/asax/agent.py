"""ASAX itself: which running job takes which waiting one, at which quota, and what is learned from how it went."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from learned.asax.knowledge import Knowledge
from learned.asax.trees import Experts, State, read_experts
from learned.asax.weights import Update


ROUNDING = 1e-6
"""Cores' worth of memory that sums may lose."""

LEAST_LIKELY = 1e-9
"""How likely any quota above 0 has to be to be drawn for a guest that is there."""


class Decision(NamedTuple):
    """What was decided for one running job: the quota of the guest, and how likely each expert found it."""

    application: str
    percent: int
    likelihoods: FloatArray


class Candidate(NamedTuple):
    """A running job that may take a guest: its application, its cores, its state, and memory that is free."""

    application: str
    cores: int
    state: State
    free_memory: float = math.inf


class Asked(NamedTuple):
    """What a waiting job asks for: cores, and memory in cores' worth of it."""

    cores: int
    memory: float = 0.0


class Hosting(NamedTuple):
    """A guest and its host, by their numbers, and the decision that brought them together."""

    guest: int
    host: int
    decision: Decision


def performance_loss(run_s: float, walltime_s: float, full_loss_at: float = 1.0) -> float:
    """Loss of a job that took so long, or is going to: how far it passes its limit, in [0, 1] (section 3.2; errata).

    Parameters
    ----------
    run_s, walltime_s
        Run time and limit, in seconds.
    full_loss_at
        Time beyond the limit, over the limit, from which on the loss is 1: 1 in section 3.2, 0.5 in section 4.4.
    """
    return min(1.0, max(0.0, (run_s - walltime_s) / walltime_s) / full_loss_at)


@dataclass
class Asax:
    """The learner (Algorithm 1).

    Parameters
    ----------
    experts
        The trees.
    knowledge
        What is known of applications; it grows.
    full_loss_at
        See `performance_loss`.

    Raises
    ------
    UsageError
        If the knowledge is that of other experts, or ``full_loss_at`` is not positive.
    """

    experts: Experts
    knowledge: Knowledge
    full_loss_at: float = 1.0

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

    def decide(
        self, application: str, state: State, rng: np.random.Generator, is_shared: bool = False
    ) -> Decision:
        """Draw a quota for a guest of a running job (lines 4 to 7).

        Parameters
        ----------
        application, state
            What the running job is, and how it is.
        rng
            Source of randomness.
        is_shared
            Whether the guest is there already, and stays: then 0 is not drawn, and the smallest quota is taken where
            the experts have nothing but 0 to say.
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

        Raises
        ------
        UsageError
            If the loss is not in [0, 1].
        """
        if not 0 <= loss <= 1:
            raise UsageError(f"the loss is {loss}, must be within 0 .. 1")
        return self.knowledge.of(decision.application).add(decision.likelihoods * loss)

    def first_fit(
        self, guests: Sequence[Asked], hosts: Iterable[tuple[int, Candidate]], rng: np.random.Generator
    ) -> Iterator[Hosting]:
        """Go through the waiting jobs, and for each through the hosts, until one gives it a quota above 0.

        Parameters
        ----------
        guests
            What the waiting jobs ask for, in the order of the queue.
        hosts
            Numbers of the running jobs that have no guest, in the order in which they are asked, and what they are.
        rng
            Source of randomness.

        Yields
        ------
        Hosting
            For each guest that found a host, which takes no other then; a job that was asked in vain learns nothing,
            for without a guest there is no loss.
        """
        free = dict(hosts)
        for guest, asked in enumerate(guests):
            for number, host in free.items():
                if asked.cores > host.cores or asked.memory > host.free_memory + ROUNDING:
                    continue
                decision = self.decide(host.application, host.state, rng)
                if decision.percent > 0:
                    yield Hosting(guest, number, decision)
                    del free[number]
                    break

    def excess_risks(self) -> dict[str, tuple[float, float]]:
        """Excess risk of each application so far, and its bound."""
        known = self.knowledge.applications.items()
        return {name: (weights.excess_risk, weights.risk_bound) for name, weights in known}
