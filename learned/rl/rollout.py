"""Letting a policy act in many environments, and estimating how good its actions were."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from learned.rl.networks import Policy
from learned.rl.state import HasState
from learned.rl.training import A2cSettings


class Environment(HasState, Protocol):
    """E environments that take a step together, each with discrete actions; one that ends starts again by itself."""

    @property
    def n_environments(self) -> int:
        """Their number E."""

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return states, shape ``(E, ...)``, and legal actions, shape ``(E, actions)``; new arrays."""

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Take an action each; return rewards and which episodes ended, shape ``(E,)``; new arrays."""


@dataclass(frozen=True, slots=True)
class Steps:
    """T steps of E environments; what is flat has a row for each of the N = T E samples, step after step."""

    # Flat: what was seen, what was legal, what was done, and the score of that action
    states: torch.Tensor
    legal: torch.Tensor
    actions: torch.Tensor
    scores: torch.Tensor
    # Of the states before each step, and after the last one where that was looked at, shape ``(T + 1, E)``
    values: torch.Tensor
    # Rewards, and whether they ended an episode, shape ``(T, E)``
    rewards: FloatArray
    done: BoolArray
    episode_return: float  # Mean sum of rewards of the episodes that ended; NaN if none did


def take_steps(
    judge: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    draw: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    environment: Environment,
    n_steps: int,
    unfinished: FloatArray,
    beyond: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
) -> Steps:
    """Act in all environments.

    ``judge`` takes states and legal actions, and returns scores of all actions and values of the states; ``draw`` takes
    these scores and legal actions, and returns actions. ``unfinished``, kept up to date, is the sum of rewards of the
    episode that runs in every environment, shape ``(E,)``. ``beyond`` takes states and legal actions after the last
    step, and returns values of the states; None not to look at them.
    """
    steps = []
    with torch.no_grad():
        for _ in range(n_steps):
            state, legal = (torch.from_numpy(array) for array in environment.observe())
            scores, value = judge(state, legal)
            action = draw(scores, legal)
            reward, ended = environment.step(action.numpy())
            unfinished += reward
            returns = unfinished[ended]
            unfinished[ended] = 0.0
            taken = scores.gather(1, action[:, None]).squeeze(1)
            steps.append((state, legal, action, taken, value, reward, ended, returns))
        states, masks, actions, taken_scores, values, rewards, done, finished = zip(*steps, strict=True)
        if beyond is not None:
            values = (*values, beyond(*(torch.from_numpy(array) for array in environment.observe())))
    ended_returns = np.concatenate(finished)
    return Steps(
        torch.cat(states),
        torch.cat(masks),
        torch.cat(actions),
        torch.cat(taken_scores),
        torch.stack(values),
        np.array(rewards),
        np.array(done),
        float(ended_returns.mean()) if ended_returns.size else float("nan"),
    )


def drawn(log_probabilities: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw actions by the logarithms of their probabilities, shape ``(E, actions)``."""
    return torch.multinomial(log_probabilities.exp(), 1, generator=generator).squeeze(1)


@dataclass(frozen=True, slots=True)
class Rollout:
    """What a policy with a critic learns from: N choices."""

    states: Any  # As the policy takes them
    # What could be done, shape ``(N, actions)``, what was done, and how probable it was, shape ``(N,)``
    legal: torch.Tensor
    actions: torch.Tensor
    log_probability: torch.Tensor
    # Estimates for what was done, shape ``(N,)``
    advantages: torch.Tensor
    returns: torch.Tensor
    episode_return: float  # Mean sum of rewards of the episodes that ended; NaN if none did


Collector = Callable[[Any, Any, A2cSettings, FloatArray, torch.Generator], Rollout]
"""Lets a policy act in an environment, and estimates how good its actions were; see `collect`."""


def collect(
    model: Policy, environment: Environment, settings: A2cSettings, unfinished: FloatArray, generator: torch.Generator
) -> Rollout:
    """Let a policy act for some steps; see `take_steps`."""
    steps = take_steps(
        lambda states, legal: (model.log_probabilities(states, legal), model.values(states)),
        lambda log_probabilities, legal: drawn(log_probabilities, generator),
        environment,
        settings.n_steps,
        unfinished,
        beyond=lambda states, legal: model.values(states),
    )
    rewards, done = torch.from_numpy(steps.rewards).float(), torch.from_numpy(steps.done)
    advantages = generalized_advantages(rewards, done, steps.values, settings)
    returns = (advantages + steps.values[:-1]).flatten()
    return Rollout(
        steps.states, steps.legal, steps.actions, steps.scores, advantages.flatten(), returns, steps.episode_return
    )


def generalized_advantages(
    rewards: torch.Tensor, done: torch.Tensor, values: torch.Tensor, settings: A2cSettings
) -> torch.Tensor:
    """Generalized advantage estimates, shape ``(T, E)``; see `Steps` for what they are made of."""
    advantages = torch.zeros_like(rewards)
    later = torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        goes_on = (~done[t]).float()
        error = rewards[t] + settings.gamma * goes_on * values[t + 1] - values[t]
        later = error + settings.gamma * settings.gae_lambda * goes_on * later
        advantages[t] = later
    return advantages


def cumulative_rewards(rewards: FloatArray, done: BoolArray, gamma: float) -> FloatArray:
    """Add discounted rewards up, from each step to the end of its episode or of the arrays, shape ``(T, E)``."""
    sums = np.zeros_like(rewards)
    later = np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        later = rewards[t] + gamma * np.where(done[t], 0.0, later)
        sums[t] = later
    return sums
