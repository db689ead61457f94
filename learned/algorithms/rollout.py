"""Letting a policy act in many environments, and estimating how good its actions were."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from allocopt.arrays import FloatArray
from learned.algorithms.actor_critic import Policy
from learned.algorithms.settings import CollectionSettings
from learned.training.environment import Environment


@dataclass(frozen=True, slots=True)
class Rollout:
    """What was seen and done between two updates, T steps of E environments, flattened to N = T E samples.

    Parameters
    ----------
    states, legal
        Shapes ``(N, channels, length)`` and ``(N, actions)``.
    actions, log_probability
        What was done, and how probable it was, shape ``(N,)``.
    advantages, returns
        Estimates for what was done, shape ``(N,)``.
    episode_return
        Mean sum of rewards of the episodes that ended; NaN if none did.
    """

    states: Any
    legal: torch.Tensor
    actions: torch.Tensor
    log_probability: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    episode_return: float


class Collector(Protocol):
    """A way to collect experience; see `collect`."""

    def __call__(
        self,
        model: Any,
        environment: Any,
        settings: CollectionSettings,
        unfinished: FloatArray,
        generator: torch.Generator,
    ) -> Rollout:
        """Let the policy act, and estimate how good its actions were."""


def collect(
    model: Policy,
    environment: Environment,
    settings: CollectionSettings,
    unfinished: FloatArray,
    generator: torch.Generator,
) -> Rollout:
    """Let the policy act.

    Parameters
    ----------
    model
        Policy and critic.
    environment
        Where it acts.
    settings
        How long, and how advantages are estimated.
    unfinished
        Sum of rewards of the episode that runs in every environment, shape ``(E,)``; kept up to date.
    generator
        Source of randomness.
    """
    states, masks, actions, log_probabilities, values, rewards, done = ([] for _ in range(7))
    finished: list[FloatArray] = []
    with torch.no_grad():
        for _ in range(settings.steps):
            state, legal = (torch.from_numpy(array) for array in environment.observe())
            log_probability = model.log_probabilities(state, legal)
            action = torch.multinomial(log_probability.exp(), 1, generator=generator)
            reward, ended = environment.step(action.squeeze(1).numpy())
            unfinished += reward
            finished.append(unfinished[ended])
            unfinished[ended] = 0.0
            states.append(state)
            masks.append(legal)
            actions.append(action.squeeze(1))
            log_probabilities.append(log_probability.gather(1, action).squeeze(1))
            values.append(model.values(state))
            rewards.append(torch.from_numpy(reward).float())
            done.append(torch.from_numpy(ended))
        values.append(model.values(torch.from_numpy(environment.observe()[0])))
    advantages = generalized_advantages(torch.stack(rewards), torch.stack(done), torch.stack(values), settings)
    ended_returns = np.concatenate(finished)
    return Rollout(
        torch.cat(states),
        torch.cat(masks),
        torch.cat(actions),
        torch.cat(log_probabilities),
        advantages.flatten(),
        (advantages + torch.stack(values[:-1])).flatten(),
        float(ended_returns.mean()) if ended_returns.size else float("nan"),
    )


def generalized_advantages(
    rewards: torch.Tensor, done: torch.Tensor, values: torch.Tensor, settings: CollectionSettings
) -> torch.Tensor:
    """Generalized advantage estimates, shape ``(T, E)``.

    Parameters
    ----------
    rewards, done
        Rewards, and whether they ended an episode, shape ``(T, E)``.
    values
        Of the states before each step and after the last one, shape ``(T + 1, E)``.
    settings
        Discount and trace.
    """
    advantages = torch.zeros_like(rewards)
    later = torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        goes_on = (~done[t]).float()
        error = rewards[t] + settings.discount * goes_on * values[t + 1] - values[t]
        later = error + settings.discount * settings.trace * goes_on * later
        advantages[t] = later
    return advantages
