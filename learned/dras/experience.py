"""Collecting whole episodes, several of each jobset, and judging every choice against the others of its jobset.

How much the jobs of an episode wait depends far more on what was submitted than on what is chosen. So some episodes
run on the same jobset side by side, and what all of them gain on average in a span of time is taken from what each
gains in it: a baseline that knows the arrivals (Mao, Venkatakrishnan, Schwarzkopf and Alizadeh, "Variance reduction for
reinforcement learning in input-driven environments", ICLR 2019). The critic estimates what is left. Time between two
choices is anything from none to days, so the discount is per time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from allocopt.arrays import FloatArray, IntArray
from learned.algorithms.rollout import Rollout
from learned.algorithms.settings import CollectionSettings
from learned.dras.acting import draw_actions
from learned.dras.jobsets import HOUR_S
from learned.dras.several import GroupEnvironment
from learned.dras.states import SlotActorCritic, SlotStates, joined, packed
from learned.inference.slots import pack_slots
from learned.networks.torch_modules import weights_of

CHUNK = 8192
"""Choices whose values and probabilities are computed together."""

SCALE_MEMORY = 0.9
"""Share of the old scale of the rewards that is kept at an update."""


@dataclass(frozen=True, slots=True)
class Episodes:
    """Whole episodes, side by side: T steps of E episodes; those that are over do nothing.

    Parameters
    ----------
    states, legal, actions
        Of the N choices, step after step; ``legal`` has shape ``(N, W)``.
    acts
        Which episodes were not over, shape ``(T, E)``, N times True.
    rewards
        Shape ``(T, E)``.
    times_s
        Before each step and after the last one, shape ``(T + 1, E)``.
    """

    states: SlotStates
    legal: torch.Tensor
    actions: torch.Tensor
    acts: np.ndarray[Any, np.dtype[np.bool_]]
    rewards: FloatArray
    times_s: FloatArray


@dataclass(frozen=True, slots=True)
class JobsetCollector:
    """A `learned.algorithms.rollout.Collector` of whole episodes.

    Parameters
    ----------
    groups
        Jobsets at a time; the episodes side by side are shared out evenly among them.
    horizon_h
        Hours after which what happens counts for 1 / e.
    """

    groups: int = 4
    horizon_h: float = 48.0

    def __call__(
        self,
        model: Any,
        environment: GroupEnvironment,
        settings: CollectionSettings,
        unfinished: FloatArray,
        generator: torch.Generator,
    ) -> Rollout:
        """Let the policy act through whole episodes, and estimate how good its actions were."""
        jobsets = environment.begin_groups(self.groups)
        played = play(model, environment, generator)
        with torch.no_grad():
            probability, values = _judged(model, played)
        steps = np.zeros((len(played.acts) + 1, environment.n_environments))
        steps[:-1][played.acts] = values.numpy()
        relative = relative_rewards(played.rewards, played.times_s, jobsets)
        discounts = np.exp(-np.diff(played.times_s, axis=0) / (self.horizon_h * HOUR_S))
        if not environment.reward_scale:
            sums = timed_advantages(relative, discounts, np.zeros_like(steps), 1.0)
            environment.set_reward_scale(float(sums[played.acts].std()) or 1.0)
        scaled = relative / environment.reward_scale
        advantages = torch.from_numpy(timed_advantages(scaled, discounts, steps, settings.trace)[played.acts]).float()
        returns = advantages + values
        factor = SCALE_MEMORY + (1 - SCALE_MEMORY) * max(float(returns.std()), 1e-3)
        environment.set_reward_scale(environment.reward_scale * factor)
        mean_return = float((played.rewards.sum(axis=0) / environment.n_jobs[jobsets]).mean())
        return Rollout(played.states, played.legal, played.actions, probability, advantages, returns, mean_return)


def play(model: SlotActorCritic, environment: GroupEnvironment, generator: torch.Generator) -> Episodes:
    """Draw actions in all episodes until every one is over."""
    network = pack_slots(weights_of(model))
    over = np.zeros(environment.n_environments, dtype=np.bool_)
    actions = np.zeros(environment.n_environments, dtype=np.int64)
    parts, masks, taken, acts, rewards, times = ([] for _ in range(6))
    values = np.zeros(environment.episodes.options.window, dtype=np.float32)
    times.append(environment.times_s())
    while not over.all():
        states, legal = environment.episodes.observe()
        uniform = torch.rand(len(over), dtype=torch.float64, generator=generator).numpy()
        draw_actions(network, states, legal, uniform, values, actions)
        reward, ended = environment.step(actions)
        parts.append(packed(states[~over], legal[~over]))
        masks.append(legal[~over])
        taken.append(actions[~over])
        acts.append(~over)
        rewards.append(reward)
        times.append(environment.times_s())
        over = ended
    legal_slots, chosen = (torch.from_numpy(np.concatenate(part)) for part in (masks, taken))
    return Episodes(joined(parts), legal_slots, chosen, np.array(acts), np.array(rewards), np.array(times))


def _judged(model: SlotActorCritic, played: Episodes) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logarithm of the probability of every choice, and the critic's value of its state."""
    probabilities, values = [], []
    for chosen in torch.split(torch.arange(len(played.actions)), CHUNK):
        states = played.states[chosen]
        log_probabilities = model.log_probabilities(states, played.legal[chosen])
        probabilities.append(log_probabilities.gather(1, played.actions[chosen, None]).squeeze(1))
        values.append(model.values(states))
    return torch.cat(probabilities), torch.cat(values)


def relative_rewards(rewards: FloatArray, times_s: FloatArray, jobsets: IntArray) -> FloatArray:
    """Take from every reward what the episodes of the same jobset gained on average in the same span of time.

    Parameters
    ----------
    rewards
        Shape ``(T, E)``.
    times_s
        Before each step and after the last one, shape ``(T + 1, E)``.
    jobsets
        Jobset of each episode, shape ``(E,)``.
    """
    gained = np.concatenate((np.zeros((1, len(jobsets))), rewards.cumsum(axis=0)))
    relative = np.empty_like(rewards)
    for jobset in np.unique(jobsets):
        members = np.flatnonzero(jobsets == jobset)
        grid = np.unique(times_s[:, members])
        curves = [np.interp(grid, *_last_of_equals(times_s[:, e], gained[:, e])) for e in members]
        mean = np.mean(curves, axis=0)
        for e in members:
            relative[:, e] = rewards[:, e] - np.diff(np.interp(times_s[:, e], grid, mean))
    return relative


def _last_of_equals(times_s: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Keep the last value of every time."""
    last = np.append(times_s[1:] != times_s[:-1], True)
    return times_s[last], values[last]


def timed_advantages(rewards: FloatArray, discounts: FloatArray, values: FloatArray, trace: float) -> FloatArray:
    """Generalized advantage estimates with a discount of its own at every step, shape ``(T, E)``.

    Parameters
    ----------
    rewards, discounts
        Shape ``(T, E)``; rewards are 0 once an episode is over.
    values
        Of the states before each step, 0 where the episode is over, and zeros, shape ``(T + 1, E)``.
    trace
        Decay of the estimate; 1 for plain returns.
    """
    advantages = np.zeros_like(rewards)
    later = np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        later = rewards[t] + discounts[t] * (values[t + 1] + trace * later) - values[t]
        advantages[t] = later
    return advantages
