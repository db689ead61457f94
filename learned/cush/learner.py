"""The selectors of CuSH in torch, and Algorithm 1: they learn from simulations, and workers average their parameters.

In an epoch, several simulations of each jobset run side by side. The return of a step is ``v_t = (sum over i >= t of
gamma^(i - t) r_i) r_g``: discounted local rewards, times the mean normalized turnaround time of the episode if
``global_reward`` is set. The baseline ``b_t`` is the mean return of all simulations of the same jobset at the same time
``t``, including the simulations of other workers. Time is counted in timesteps or in actions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import CushEpisodes, CushOptions
from allocopt.errors import UsageError
from allocopt.learned.cush.policies import (
    JOBS,
    LEARNED,
    POLICIES,
    SIDE,
    Agent,
    JobSelector,
    PolicySelector,
    Validator,
    parts_of,
)
from allocopt.learned.rl.algorithms import Choices, OptimizerName, PolicyGradient, timed_advantages
from allocopt.learned.rl.networks import SlotNetwork, masked, masked_log_softmax, set_weights, slot_logits, weights_of
from allocopt.learned.rl.slots import CompactNetwork, SlotPolicy
from allocopt.learned.rl.workers import Stateful, Workers
from allocopt.simulator.locality import Policy

Clock = Literal["timesteps", "actions"]  # Unit of time in the baseline
SlotRows = tuple[torch.Tensor, torch.Tensor]
"""States of ``n`` choices: features ``(R, K)`` of only the legal slots, and the mask of legal ones, ``(n, Q + 1)``."""
FILTERS = 16
MOMENTUM = 0.1  # Weight of a new batch in the running statistics of batch normalization


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyper-parameters of Algorithm 1, by default the paper's.

    Raises `UsageError` if validations do not coincide with averages.
    """

    epochs: int = 5000  # Epochs of the whole training; the last one ends with an average and a validation
    optimizer: OptimizerName = "rmsprop"  # Optimizer of both selectors
    # Learning rates at the start
    selector_rate: float = 1e-4
    policy_rate: float = 1e-3
    last_rate: float = 1.0  # Share of the learning rates that is left at the end
    gamma: float = 0.9  # Discount per step
    global_reward: bool = True  # Whether returns are multiplied by the mean normalized turnaround time of the episode
    clock: Clock = "actions"
    policy_steps: int = 1  # Gradient steps of the policy selector in an epoch, each on its share of the choices
    # Whether the mean return of the same job in all simulations is the baseline of the policy selector
    policy_baseline: bool = False
    scaled: bool = False  # Whether advantages are divided by their standard deviation
    # Weight of the entropy of both selectors at the start and at the end
    ent_coef: float = 0.0
    final_ent_coef: float = 0.0
    max_grad_norm: float = float("inf")  # Norm at which gradients are clipped
    # Number of parts in which an epoch is played; the images of all jobsets together may not fit into memory
    chunks: int = 1
    average_every: int = 5  # Epochs K between two averages of the workers' parameters
    validate_every: int = 25  # Epochs between two validations, a multiple of K

    def __post_init__(self) -> None:
        if min(self.average_every, self.validate_every, self.chunks) < 1 or self.validate_every % self.average_every:
            validations = f"validations every {self.validate_every} epochs"
            raise UsageError(f"{validations} must coincide with averages; give a multiple of {self.average_every}")


PUBLISHED = Settings()
USUAL = Settings(
    optimizer="adam",
    selector_rate=3e-3,
    policy_rate=1e-2,
    last_rate=0.05,
    gamma=1.0,
    global_reward=False,
    clock="timesteps",
    policy_steps=8,
    policy_baseline=True,
    scaled=True,
    ent_coef=0.01,
    max_grad_norm=0.5,
)
"""Settings of the shipped weights."""
SETTINGS_BY_NAME: Mapping[str, Settings] = {
    "usual": USUAL,
    "published": PUBLISHED,
    "normalized": replace(PUBLISHED, scaled=True),
    "entropy": replace(PUBLISHED, ent_coef=0.01),
    "stable": replace(PUBLISHED, scaled=True, ent_coef=0.01),
}
"""Settings by name: of the shipped weights, of the paper, and of the paper with one or both stabilizing changes."""


class CompactModule(nn.Module):
    """The compact job selector: maps `SlotRows` to logits ``(n, Q + 1)``; acts without torch."""

    largest_batch = 100_000  # Most choices in one batch; more do not fit into a cache

    def __init__(self, network: CompactNetwork) -> None:
        super().__init__()
        self.actor = SlotNetwork(network).actor

    def forward(self, states: SlotRows) -> torch.Tensor:
        return slot_logits(self.actor, *states)

    def states(self, observations: Float32Array, legal: BoolArray) -> SlotRows:
        """Return observations of ``n`` choices in the form that the module takes."""
        return torch.from_numpy(observations[legal]), torch.from_numpy(legal)

    def acting(self) -> JobSelector:
        """Return a selector that acts by the present weights."""
        return SlotPolicy.of(weights_of(self))


class ImageModule(nn.Module):
    """The paper's job selector: maps images ``(n, Q + 1, T, units)`` to logits ``(n, Q + 1)``; acts itself.

    Batch normalization uses running statistics during learning, too, so that probabilities equal those with which the
    choices were drawn. Every training batch updates the statistics.
    """

    largest_batch = 256

    def __init__(self, queue: int, horizon: int, units: int) -> None:
        super().__init__()
        self.filters = nn.Conv2d(queue + 1, FILTERS, SIDE)
        self.norm = nn.BatchNorm2d(FILTERS, momentum=MOMENTUM)
        self.output = nn.Linear(FILTERS * (horizon - SIDE + 1) * (units - SIDE + 1), queue + 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        found = torch.relu(self.filters(states))
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        # Copy them: gradients still need these values after the statistics have been updated.
        mean, variance = norm.running_mean.clone(), norm.running_var.clone()
        values = nn.functional.batch_norm(found, mean, variance, norm.weight, norm.bias)
        if torch.is_grad_enabled():
            with torch.no_grad():
                new_variance, new_mean = torch.var_mean(found.detach(), dim=(0, 2, 3))
                norm.running_mean.lerp_(new_mean, MOMENTUM)
                norm.running_var.lerp_(new_variance, MOMENTUM)
        logits: torch.Tensor = self.output(values.flatten(1))
        return logits

    def states(self, observations: Float32Array, legal: BoolArray) -> torch.Tensor:
        """Return observations of ``n`` choices in the form that the module takes."""
        return torch.from_numpy(observations)

    def acting(self) -> JobSelector:
        """Return a selector that acts by the present weights."""
        return self

    def choose(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray | None = None) -> IntArray:
        """Return or draw choices; see `allocopt.learned.cush.policies.JobSelector.choose`."""
        with torch.no_grad():
            logits = self(torch.from_numpy(observations))
        if uniform is None:
            return np.asarray(masked(logits, torch.from_numpy(legal)).argmax(1).numpy())
        probability = masked_log_softmax(logits, torch.from_numpy(legal)).exp().double()
        below = probability.cumsum(1) <= torch.from_numpy(uniform)[:, None] * probability.sum(1, keepdim=True)
        # Rounding errors must not lead beyond the last choice, which is to do nothing.
        return np.asarray(below.sum(1).clamp(max=legal.shape[1] - 1).numpy())


SelectorModule = CompactModule | ImageModule


@dataclass(frozen=True, slots=True, eq=False)
class _Allocations:
    # Allocations of the n jobs of some episodes.

    # Episode of each job, and its number in the jobset, shape ``(n,)``
    episodes: IntArray
    jobs: IntArray
    described: Float32Array  # Input of the policy selector, shape ``(n, inputs)``
    # The policy that was drawn, its penalty, and whether no other policy has a smaller one, shape ``(n,)``
    policies: IntArray
    penalties: FloatArray
    right: BoolArray

    def choices(self, groups: IntArray, settings: Settings, workers: Workers) -> Choices:
        # The policy selector learns from minus the penalties; with ``policy_baseline``, relative to their mean per job.
        returns = -self.penalties
        if settings.policy_baseline:
            # Every job of every jobset is started once in each simulation.
            size = int(groups.max()) + 1, int(self.jobs.max()) + 1
            returns = returns - _means_over(returns, groups[self.episodes], self.jobs, size, workers)
        legal = torch.ones((len(returns), len(Policy)), dtype=torch.bool)
        described, policies = torch.from_numpy(self.described), torch.from_numpy(self.policies)
        return Choices(described, legal, policies, _advantages_of(returns, settings))


@dataclass(frozen=True, slots=True, eq=False)
class _Played:
    # Whole episodes: T steps of E episodes, after which all are over.

    # The N choices that had more than one legal action, step after step
    observations: Float32Array
    legal: BoolArray
    slots: IntArray
    acts: BoolArray  # True where one of these choices was made, shape ``(T, E)``; N entries are True
    runs: BoolArray  # Whether each episode was not over yet, shape ``(T, E)``
    rewards: FloatArray  # Shape ``(T, E)``
    times: IntArray  # Timesteps passed before each step, shape ``(T, E)``
    turnaround: FloatArray  # Mean normalized turnaround time of each episode, shape ``(E,)``
    allocations: _Allocations  # Allocations of all jobs

    def returns(self, gamma: float, *, global_reward: bool) -> FloatArray:
        # Return ``v_t`` of every step, shape ``(T, E)``, with or without the factor ``r_g``.
        returns = timed_advantages(self.rewards, np.full(self.rewards.shape, gamma))
        return returns * self.turnaround if global_reward else returns

    def times_by(self, clock: Clock) -> IntArray:
        actions = np.broadcast_to(np.arange(len(self.times))[:, None], self.times.shape)
        return self.times if clock == "timesteps" else actions


class Simulations(Stateful):
    """Episodes of an epoch: ``simulations`` episodes of each of ``groups`` jobsets, which are drawn at random."""

    state = ("_rng",)

    def __init__(
        self,
        jobsets: Sequence[JobSet],
        machine: Machine,
        groups: int,
        simulations: int,
        options: CushOptions,
        seed: int,
    ) -> None:
        self.episodes = CushEpisodes(jobsets, machine, groups * simulations, options)
        self.groups = np.repeat(np.arange(groups), simulations)
        self._n_groups = groups
        self._rng = np.random.default_rng((seed, 1))

    def play(self, agent: Agent, generator: torch.Generator) -> _Played:
        """Draw jobsets, then draw choices until every episode is over."""
        count = len(self.episodes.jobsets)
        drawn = self._rng.choice(count, self._n_groups, replace=count < self._n_groups)
        episodes = self.episodes
        episodes.begin(drawn[self.groups])
        over = np.zeros(episodes.n_environments, dtype=np.bool_)
        steps = []
        while not over.all():
            uniform = torch.rand((2, len(over)), dtype=torch.float64, generator=generator).numpy()
            choice = agent.choose(episodes, over, uniform)
            open_choice = ~over & (choice.legal.sum(axis=1) > 1)
            runs, now = ~over, episodes.now
            reward, over = episodes.step(choice.slots, choice.policies)
            acted = choice.observations[open_choice], choice.legal[open_choice], choice.slots[open_choice]
            # Do not keep the whole choice: images of all steps would not fit into memory.
            begun = choice.episodes, choice.jobs, choice.how, choice.described, choice.penalties
            steps.append((*acted, open_choice, runs, reward, now, begun))
        seen, masks, chosen, *framed, starts = zip(*steps, strict=True)
        numbers, jobs, drawn_policies, described, penalties = map(np.concatenate, zip(*starts, strict=True))
        paid = penalties[np.arange(len(jobs)), drawn_policies]
        right = paid <= penalties.min(axis=1) + 1e-9
        allocations = _Allocations(numbers, jobs, described, drawn_policies, paid, right)
        observations, legal, slots = (np.concatenate(parts) for parts in (seen, masks, chosen))
        acts, runs, rewards, times = (np.array(parts) for parts in framed)
        turnaround = episodes.metrics()["normalized_turnaround"]
        return _Played(observations, legal, slots, acts, runs, rewards, times, turnaround, allocations)


def _baseline(returns: FloatArray, times: IntArray, runs: BoolArray, groups: IntArray, workers: Workers) -> FloatArray:
    # Return ``b_t`` of every step, shape ``(T, E)``; ``groups`` has the jobset of each episode, shape ``(E,)``.
    last = int(workers.largest(np.array([times[runs].max()], dtype=np.float64))[0])
    size, means = (int(groups.max()) + 1, last + 1), np.zeros_like(returns)
    means[runs] = _means_over(returns[runs], np.broadcast_to(groups, times.shape)[runs], times[runs], size, workers)
    return means


def _means_over(
    values: FloatArray, groups: IntArray, numbers: IntArray, size: tuple[int, int], workers: Workers
) -> FloatArray:
    # Return for each value the mean over the values of all workers with the same group and number. Groups are below
    # ``size[0]``, numbers below ``size[1]``.
    sums = np.zeros((2, *size))
    np.add.at(sums[0], (groups, numbers), values)
    np.add.at(sums[1], (groups, numbers), 1.0)
    sums = workers.total(sums)
    means: FloatArray = (sums[0] / np.maximum(sums[1], 1.0))[groups, numbers]
    return means


class CushLearner(Stateful):
    """Learner of both selectors, or of only the job selector, for a machine.

    See `allocopt.learned.rl.workers.Learner`.
    """

    state = ("_learners", "_simulations", "_generator", "_samples", "_epochs", "_measures", "best", "best_score")

    def __init__(
        self,
        jobs: SelectorModule,
        policies: nn.Module | PolicySelector,
        simulations: Simulations,
        validator: Validator,
        settings: Settings,
        seed: int,
        workers: Workers,
    ) -> None:
        self._jobs, self._policies = jobs, policies
        self._simulations, self._validator, self._settings, self._workers = simulations, validator, settings, workers
        self.n_workers = workers.count
        own_seed = np.random.SeedSequence((seed, workers.rank)).generate_state(1)[0]
        self._generator = torch.Generator().manual_seed(int(own_seed))
        how = (settings.optimizer, settings.last_rate, settings.max_grad_norm)
        self._learners = {JOBS: PolicyGradient(jobs, settings.selector_rate, *how)}
        if isinstance(policies, nn.Module):
            self._learners[POLICIES] = PolicyGradient(policies, settings.policy_rate, *how)
        self._epochs, self._samples = 0, 0
        self._measures: dict[str, float] = {}
        self.best: dict[str, Float32Array] = self.weights()
        self.best_score = np.inf

    def update(self, share: float) -> dict[str, float]:
        """Play one epoch and learn from it."""
        settings = self._settings
        if self._epochs == 0:
            self._average()
            # Validate untrained parameters, so that the curve begins with them; they are never kept.
            self._measures = self._validator.measures(self.agent(), self._workers)
        rates = {name: learner.set_rate(share) for name, learner in self._learners.items()}
        ent_coef = settings.ent_coef + share * (settings.final_ent_coef - settings.ent_coef)
        found: list[tuple[_Allocations, float]] = []
        entropy = self._learners[JOBS].improve(self._selections(found), ent_coef)
        allocations = [part for part, _ in found]
        if POLICIES in self._learners:
            parts = [part.choices(self._simulations.groups, settings, self._workers) for part in allocations]
            steps = [parts]
            if settings.policy_steps > 1:
                names = ("states", "legal", "actions", "advantages")
                whole = [torch.cat([getattr(part, name) for part in parts]) for name in names]
                order = torch.randperm(len(whole[0]), generator=self._generator).chunk(settings.policy_steps)
                steps = [[Choices(*(tensor[some] for tensor in whole))] for some in order]
            for choices in steps:
                self._learners[POLICIES].improve(choices, ent_coef)
        self._epochs += 1
        is_last = self._epochs == settings.epochs
        if is_last or self._epochs % settings.average_every == 0:
            self._average()
        if is_last or self._epochs % settings.validate_every == 0:
            self._measures = self._validator.measures(self.agent(), self._workers)
            if self._measures["score"] < self.best_score:
                self.best_score, self.best = self._measures["score"], self.weights()
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
        return {
            prefix + name: values
            for prefix, learner in self._learners.items()
            for name, values in weights_of(learner.actor).items()
        }

    def snapshot(self) -> dict[str, Any]:
        return {"workers": list(self._workers.gathered(super().snapshot()))}

    def restore(self, snapshot: dict[str, Any]) -> None:
        if len(snapshot["workers"]) != self._workers.count:
            raise ValueError(f"the snapshot is of {len(snapshot['workers'])} workers, must be of {self._workers.count}")
        super().restore(snapshot["workers"][self._workers.rank])

    def agent(self) -> Agent:
        """Return an agent with the present parameters."""
        policies = self._policies
        if isinstance(policies, nn.Module):
            policies = PolicySelector(LEARNED, weights_of(policies))
        return Agent(self._jobs.acting(), policies)

    def best_agent(self) -> Agent:
        """Restore the best parameters, and return an agent with them."""
        for prefix, learner in self._learners.items():
            set_weights(learner.actor, parts_of(self.best, prefix))
        return self.agent()

    def _selections(self, found: list[tuple[_Allocations, float]]) -> Iterator[Choices]:
        agent, settings = self.agent(), self._settings
        for _ in range(settings.chunks):
            part = self._simulations.play(agent, self._generator)
            returns = part.returns(settings.gamma, global_reward=settings.global_reward)
            times = part.times_by(settings.clock)
            expected = _baseline(returns, times, part.runs, self._simulations.groups, self._workers)
            advantages = _advantages_of((returns - expected)[part.acts], settings)
            self._samples += len(advantages)
            found.append((part.allocations, float(part.turnaround.mean())))
            for first in range(0, len(part.slots), self._jobs.largest_batch):
                some = slice(first, first + self._jobs.largest_batch)
                states = self._jobs.states(part.observations[some], part.legal[some])
                legal, slots = torch.from_numpy(part.legal[some]), torch.from_numpy(part.slots[some])
                yield Choices(states, legal, slots, advantages[some])

    def _average(self) -> None:
        for learner in self._learners.values():
            self._workers.average(learner.actor)


def _advantages_of(differences: FloatArray, settings: Settings) -> torch.Tensor:
    advantages = torch.from_numpy(differences).float()
    return advantages / (advantages.std() + 1e-8) if settings.scaled else advantages
