"""Collect whole episodes, several of each jobset, and compare every choice with the other episodes of its jobset.

The waits of an episode depend far more on its jobset than on the choices. So several episodes run on the same jobset
side by side, and their mean gain in a span of time is subtracted from the gain of each (Mao et al., "Variance reduction
for reinforcement learning in input-driven environments", ICLR 2019). The critic estimates the rest. The time between
two choices varies from zero to days, so the discount is per time, not per step.

A policy may first imitate WFP3, the rule that starts the job of the greatest (wait / estimate)^3 x size. Without this
start, a policy lets long jobs starve for a while.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.dras.dynamics import FEATURES, LOG_UNIT
from allocopt.learned.dras.environment import JobsetEnvironment, SeveralMachines
from allocopt.learned.rl.algorithms import Rollout, descend, timed_advantages
from allocopt.learned.rl.networks import SlotActorCritic, SlotStates, weights_of
from allocopt.learned.rl.slots import SlotPolicy
from allocopt.learned.rl.training import A2cSettings
from allocopt.traces.weekly_cycle import HOUR_S

CHUNK = 8192  # Choices whose values and probabilities are computed together
SCALE_MEMORY = 0.9  # Weight of the old scale of the rewards at an update
LOG_WAIT, LOG_ESTIMATE, LOG_SIZE = (FEATURES.index(name) for name in ("log_wait", "log_estimate", "log_size"))
POWER = 3.0  # Exponent of wait / estimate in WFP3
IMITATION_STEPS, IMITATION_BATCH, IMITATION_RATE = 300, 2048, 3e-3
Act = Callable[[Float32Array, BoolArray], IntArray]  # Takes states and legal slots, returns a slot for each state


@dataclass(frozen=True, slots=True)
class _PlayedEpisodes:
    # Whole episodes, side by side: T steps of E episodes; episodes that are over do nothing.

    # The N choices, step after step; ``legal`` has shape ``(N, W)``
    states: SlotStates
    legal: torch.Tensor
    actions: torch.Tensor
    acts: BoolArray  # Whether each episode was not over yet, shape ``(T, E)``, N times True
    rewards: FloatArray  # Shape ``(T, E)``
    times_s: FloatArray  # Time before each step and after the last one, shape ``(T + 1, E)``


@dataclass(frozen=True, slots=True)
class JobsetCollector:
    """A `allocopt.learned.rl.algorithms.Collector` of whole episodes."""

    groups: int = 4  # Number of jobsets at a time, among which the episodes are divided evenly
    horizon_h: float = 48.0  # Hours after which a reward counts 1 / e

    def __call__(
        self,
        model: Any,
        environment: JobsetEnvironment | SeveralMachines,
        settings: A2cSettings,
        unfinished: FloatArray,
        generator: torch.Generator,
    ) -> Rollout:
        """Play whole episodes on the next machine by the policy, and estimate the advantages of its actions."""
        machine = environment.next_machine()
        jobsets = machine.begin_groups(self.groups)
        policy = SlotPolicy.of(weights_of(model))

        def act(states: Float32Array, legal: BoolArray) -> IntArray:
            # Acts without torch, except for the random numbers.
            drawn = torch.rand(len(states), dtype=torch.float64, generator=generator)
            return policy.choose(states, legal, drawn.numpy())

        played = _play(machine, act)
        judged = []
        with torch.no_grad():
            for chosen in torch.split(torch.arange(len(played.actions)), CHUNK):
                states = played.states[chosen]
                log_probabilities = model.log_probabilities(states, played.legal[chosen])
                taken = log_probabilities.gather(1, played.actions[chosen, None]).squeeze(1)
                judged.append((taken, model.values(states)))
        probability, values = (torch.cat(parts) for parts in zip(*judged, strict=True))
        steps = np.zeros((len(played.acts) + 1, machine.n_environments))
        steps[:-1][played.acts] = values.numpy()
        relative = _relative_rewards(played.rewards, played.times_s, jobsets)
        discounts = np.exp(-np.diff(played.times_s, axis=0) / (self.horizon_h * HOUR_S))
        if not machine.reward_scale:
            sums = timed_advantages(relative, discounts)
            machine.reward_scale = float(sums[played.acts].std()) or 1.0
        estimates = timed_advantages(relative / machine.reward_scale, discounts, steps, settings.gae_lambda)
        advantages = torch.from_numpy(estimates[played.acts]).float()
        returns = advantages + values
        machine.reward_scale *= SCALE_MEMORY + (1 - SCALE_MEMORY) * max(float(returns.std()), 1e-3)
        mean_return = float((played.rewards.sum(axis=0) / machine.n_jobs[jobsets]).mean())
        return Rollout(played.states, played.legal, played.actions, advantages, probability, returns, mean_return)


def _play(environment: JobsetEnvironment, act: Act) -> _PlayedEpisodes:
    over = np.zeros(environment.n_environments, dtype=np.bool_)
    steps, times = [], [environment.episodes.now]
    while not over.all():
        states, legal = environment.episodes.observe()
        actions = act(states, legal)
        reward, ended = environment.step(actions)
        steps.append((states[~over][legal[~over]], legal[~over], actions[~over], ~over, reward))
        times.append(environment.episodes.now)
        over = ended
    rows, masks, taken, acts, rewards = zip(*steps, strict=True)
    legal_slots, chosen = np.concatenate(masks), torch.from_numpy(np.concatenate(taken))
    seen, legal_then = SlotStates.joined(rows, legal_slots), torch.from_numpy(legal_slots)
    return _PlayedEpisodes(seen, legal_then, chosen, np.array(acts), np.array(rewards), np.array(times))


def _relative_rewards(rewards: FloatArray, times_s: FloatArray, jobsets: IntArray) -> FloatArray:
    """Return rewards ``(T, E)`` minus the mean gain of all episodes of the same jobset in the same span of time.

    ``times_s`` has the time before each step and after the last one, shape ``(T + 1, E)``.
    """
    gained = np.concatenate((np.zeros((1, len(jobsets))), rewards.cumsum(axis=0)))
    relative = np.empty_like(rewards)
    for jobset in np.unique(jobsets):
        members = np.flatnonzero(jobsets == jobset)
        grid = np.unique(times_s[:, members])
        curves = []
        for e in members:
            last = np.append(times_s[1:, e] != times_s[:-1, e], True)
            curves.append(np.interp(grid, times_s[last, e], gained[last, e]))
        mean = np.mean(curves, axis=0)
        for e in members:
            relative[:, e] = rewards[:, e] - np.diff(np.interp(times_s[:, e], grid, mean))
    return relative


def _wfp3_scores(states: Float32Array, machine: int) -> FloatArray:
    # Return the logarithms of WFP3's values, which are sums of three features. A time t counts as t + 1 minute. States
    # have shape ``(..., W, K)``, the result has shape ``(..., W)``.
    size_unit = np.log2(1.0 + machine) / LOG_UNIT
    relative_wait = states[..., LOG_WAIT] - states[..., LOG_ESTIMATE]
    return np.asarray(POWER * relative_wait + size_unit * states[..., LOG_SIZE], dtype=np.float64)


def imitate_wfp3(
    model: SlotActorCritic, environment: JobsetEnvironment | SeveralMachines, seed: int, steps: int = IMITATION_STEPS
) -> None:
    """Play an episode of every environment by WFP3, and teach the actor the choices of WFP3 by cross-entropy."""
    machine = environment.next_machine()
    machine.begin_groups(machine.n_environments)
    nodes = machine.episodes.machine
    played = _play(machine, lambda states, legal: np.where(legal, _wfp3_scores(states, nodes), -np.inf).argmax(axis=-1))
    optimizer = torch.optim.Adam(model.actor.parameters(), IMITATION_RATE)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randint(len(played.actions), (IMITATION_BATCH,), generator=generator)
        probabilities = model.log_probabilities(played.states[batch], played.legal[batch])
        loss = -probabilities.gather(1, played.actions[batch, None]).mean()
        descend(optimizer, list(model.actor.parameters()), loss, float("inf"))
