"""Algorithm 1: both selectors learn from simulations of job sets, and workers average what they learned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from allocopt.arrays import Float32Array, FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.simulator.locality import Policy
from learned.cush.acting import Validator
from learned.cush.modules import PolicyModule, SelectorModule
from learned.cush.selectors import JOBS, POLICIES, Agent, PolicySelector, parts_of
from learned.cush.simulations import Allocations, Clock, Played, Simulations, baseline, means_over, returns_of, times_by
from learned.rl.learner import OptimizerName
from learned.rl.networks import set_weights, weights_of
from learned.rl.policy_gradient import Choices, PolicyGradient
from learned.rl.workers import Workers


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyper-parameters of Algorithm 1; the defaults are the paper's.

    Raises `UsageError` if validations do not fall on averages.
    """

    epochs: int = 5000  # Epochs of the whole training, the last of which ends with an average and a validation
    optimizer: OptimizerName = "rmsprop"  # Of both selectors
    # Learning rates at the start
    selector_rate: float = 1e-4
    policy_rate: float = 1e-3
    last_rate: float = 1.0  # Share of them that is left at the end
    gamma: float = 0.9  # Discount per step
    global_reward: bool = True  # Whether returns are multiplied by the mean normalized turnaround time of the episode
    clock: Clock = "actions"  # What counts as the same time for the baseline
    policy_steps: int = 1  # Steps of the policy selector in an epoch, each along its share of the choices
    # Whether the mean return of the same job in all simulations is the baseline of the policy selector
    policy_baseline: bool = False
    scaled: bool = False  # Whether advantages are divided by their standard deviation
    # Weight of the entropy of both selectors at the start and at the end
    ent_coef: float = 0.0
    final_ent_coef: float = 0.0
    max_grad_norm: float = float("inf")  # Norm that gradients are cut at
    # Parts in which an epoch is played, one after the other; images of all job sets do not fit in memory
    # together
    chunks: int = 1
    average_every: int = 5  # Epochs K between two averages of the workers' parameters
    validate_every: int = 25  # Epochs between two validations, a multiple of K

    def __post_init__(self) -> None:
        if min(self.average_every, self.validate_every, self.chunks) < 1 or self.validate_every % self.average_every:
            raise UsageError(
                f"validations every {self.validate_every} epochs must fall on averages, every {self.average_every}"
            )


class CushLearner:
    """Both selectors on one machine; see `learned.rl.loop.Learner`.

    The policy selector may be one that does not learn. The seed fixes every random choice but that of job sets, which
    workers have in common.
    """

    def __init__(
        self,
        jobs: SelectorModule,
        policies: PolicyModule | PolicySelector,
        simulations: Simulations,
        validator: Validator,
        settings: Settings,
        seed: int,
        workers: Workers,
    ) -> None:
        self._jobs, self._policies = jobs, policies
        self._simulations, self._validator, self._settings, self._workers = simulations, validator, settings, workers
        self.n_workers = workers.count
        self._generator = torch.Generator().manual_seed(
            int(np.random.SeedSequence((seed, workers.rank)).generate_state(1)[0])
        )
        how = (settings.optimizer, settings.last_rate, settings.max_grad_norm)
        self._learners = {JOBS: PolicyGradient(jobs, settings.selector_rate, *how)}
        if isinstance(policies, PolicyModule):
            self._learners[POLICIES] = PolicyGradient(policies, settings.policy_rate, *how)
        self._epochs, self._samples = 0, 0
        self._measures: dict[str, float] = {}
        self.best: dict[str, Float32Array] = self.weights()
        self.best_score = np.inf

    def update(self, share: float) -> dict[str, float]:
        """Play and learn for an epoch; see `learned.rl.loop.Learner.update`."""
        settings = self._settings
        if self._epochs == 0:
            self._average()
            # Untrained parameters are judged, for the curve to begin with, and never kept.
            self._measures = self._validator.measures(self.agent(), self._workers)
        rates = {name: learner.set_rate(share) for name, learner in self._learners.items()}
        ent_coef = settings.ent_coef + share * (settings.final_ent_coef - settings.ent_coef)
        found: list[tuple[Allocations, float]] = []
        entropy = self._learners[JOBS].improve(self._selections(found), ent_coef)
        allocations = [part for part, _ in found]
        if POLICIES in self._learners:
            self._improve_policies(allocations, ent_coef)
        self._epochs += 1
        is_last = self._epochs == settings.epochs
        if is_last or self._epochs % settings.average_every == 0:
            self._average()
        if is_last or self._epochs % settings.validate_every == 0:
            self._keep_if_best()
        turnaround = float(np.mean([mean for _, mean in found]))
        return {
            "samples": float(self._samples),
            "mean_return": 1.0 - turnaround,
            "drawn_turnaround": turnaround,
            "drawn_penalty": float(np.mean([part.penalties.mean() for part in allocations])),
            "right_drawn": float(np.mean([part.right.mean() for part in allocations])),
            "entropy": entropy,
            "learning_rate": rates[JOBS],
            **self._measures,
            "best_score": self.best_score,
        }

    def weights(self) -> dict[str, Float32Array]:
        """Return the present parameters of both selectors."""
        weights = {JOBS + name: values for name, values in weights_of(self._jobs).items()}
        if isinstance(self._policies, PolicyModule):
            weights |= {POLICIES + name: values for name, values in weights_of(self._policies).items()}
        return weights

    def snapshot(self) -> dict[str, Any]:
        """Return all that later epochs depend on, of every worker."""
        own = {
            "learners": {name: learner.snapshot() for name, learner in self._learners.items()},
            "simulations": self._simulations.snapshot(),
            "generator": self._generator.get_state(),
            "samples": self._samples,
        }
        return {
            "workers": list(self._workers.gathered(own)),
            "epochs": self._epochs,
            "measures": dict(self._measures),
            "best": dict(self.best),
            "best_score": float(self.best_score),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot of as many workers."""
        if len(snapshot["workers"]) != self._workers.count:
            raise ValueError(f"the snapshot is of {len(snapshot['workers'])} workers")
        own = snapshot["workers"][self._workers.rank]
        for name, learner in self._learners.items():
            learner.restore(own["learners"][name])
        self._simulations.restore(own["simulations"])
        self._generator.set_state(own["generator"])
        self._samples, self._epochs = own["samples"], snapshot["epochs"]
        self._measures, self.best = dict(snapshot["measures"]), dict(snapshot["best"])
        self.best_score = snapshot["best_score"]

    def agent(self) -> Agent:
        """Return what acts by the present parameters."""
        policies = self._policies
        return Agent(self._jobs.acting(), policies.acting() if isinstance(policies, PolicyModule) else policies)

    def best_agent(self) -> Agent:
        """Go back to the best parameters, and return what acts by them."""
        set_weights(self._jobs, parts_of(self.best, JOBS))
        if isinstance(self._policies, PolicyModule):
            set_weights(self._policies, parts_of(self.best, POLICIES))
        return self.agent()

    def _selections(self, found: list[tuple[Allocations, float]]) -> Iterator[Choices]:
        agent, settings = self.agent(), self._settings
        for _ in range(settings.chunks):
            part = self._simulations.play(agent, self._generator)
            returns = returns_of(part, settings.gamma, global_reward=settings.global_reward)
            times = times_by(settings.clock, part)
            expected = baseline(returns, times, part.runs, self._simulations.groups, self._workers)
            advantages = advantages_of((returns - expected)[part.acts], settings)
            self._samples += len(advantages)
            found.append((part.allocations, float(part.turnaround.mean())))
            yield from selector_choices(self._jobs, part, advantages)

    def _improve_policies(self, found: Sequence[Allocations], ent_coef: float) -> None:
        groups, settings = self._simulations.groups, self._settings
        parts = [policy_choices(part, groups, settings, self._workers) for part in found]
        if settings.policy_steps == 1:
            self._learners[POLICIES].improve(parts, ent_coef)
            return
        names = ("states", "legal", "actions", "advantages")
        whole = [torch.cat([getattr(part, name) for part in parts]) for name in names]
        order = torch.randperm(len(whole[0]), generator=self._generator)
        for some in order.chunk(settings.policy_steps):
            self._learners[POLICIES].improve([Choices(*(tensor[some] for tensor in whole))], ent_coef)

    def _average(self) -> None:
        for module in (self._jobs, self._policies):
            if isinstance(module, torch.nn.Module):
                self._workers.average(module)

    def _keep_if_best(self) -> None:
        self._measures = self._validator.measures(self.agent(), self._workers)
        if self._measures["score"] < self.best_score:
            self.best_score, self.best = self._measures["score"], self.weights()


def selector_choices(jobs: SelectorModule, played: Played, advantages: torch.Tensor) -> Iterator[Choices]:
    """Return what a job selector learns from, in batches that it takes."""
    for first in range(0, len(played.slots), jobs.largest_batch):
        some = slice(first, first + jobs.largest_batch)
        legal = played.legal[some]
        states = jobs.states(played.observations[some], legal)
        yield Choices(states, torch.from_numpy(legal), torch.from_numpy(played.slots[some]), advantages[some])


def policy_choices(found: Allocations, groups: IntArray, settings: Settings, workers: Workers) -> Choices:
    """Return what the policy selector learns from: its return is minus the penalty.

    Where there is a baseline, it is the mean return of the same job in all simulations.
    """
    returns = -found.penalties
    if settings.policy_baseline:
        # Every job of every job set is started once in each simulation.
        size = int(groups.max()) + 1, int(found.jobs.max()) + 1
        returns = returns - means_over(returns, groups[found.episodes], found.jobs, size, workers)
    legal = torch.ones((len(returns), len(Policy)), dtype=torch.bool)
    described, policies = torch.from_numpy(found.described), torch.from_numpy(found.policies)
    return Choices(described, legal, policies, advantages_of(returns, settings))


def advantages_of(differences: FloatArray, settings: Settings) -> torch.Tensor:
    """Return advantages, over their standard deviation where that is asked for."""
    advantages = torch.from_numpy(differences).float()
    return advantages / (advantages.std() + 1e-8) if settings.scaled else advantages
