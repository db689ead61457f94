"""A policy over masked, discrete actions and its critic.

An illegal action gets the smallest logit there is, so that its probability is zero (NSA paper, section V-B2).
"""

from typing import Any

import torch
from torch import nn


def masked(values: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
    """Return values of actions, those of illegal ones the smallest there are."""
    return values.masked_fill(~legal, torch.finfo(values.dtype).min)


def masked_log_softmax(logits: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
    """Logarithms of the probabilities of actions, shape ``(batch, actions)``."""
    return torch.log_softmax(masked(logits, legal), dim=1)


def mean_entropy(log_probabilities: torch.Tensor) -> torch.Tensor:
    """Mean entropy of distributions over actions, their logarithms of shape ``(batch, actions)``."""
    return -(log_probabilities.exp() * log_probabilities).sum(1).mean()


class Policy(nn.Module):
    """A policy and a critic, whatever networks they are and however they take states."""

    def log_probabilities(self, states: Any, legal: torch.Tensor) -> torch.Tensor:
        """Logarithms of the probabilities of all actions, shape ``(batch, actions)``."""
        raise NotImplementedError

    def values(self, states: Any) -> torch.Tensor:
        """Values of states, shape ``(batch,)``."""
        raise NotImplementedError


class ActorCritic(Policy):
    """A policy and a critic, two networks over the same states.

    Parameters
    ----------
    actor
        States to one logit per action, shape ``(batch, actions)``.
    critic
        States to a value, shape ``(batch, 1)``.
    """

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        super().__init__()
        self.actor = actor
        self.critic = critic

    def log_probabilities(self, states: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        """Logarithms of the probabilities of all actions, shape ``(batch, actions)``."""
        return masked_log_softmax(self.actor(states), legal)

    def values(self, states: torch.Tensor) -> torch.Tensor:
        """Values of states, shape ``(batch,)``."""
        values: torch.Tensor = self.critic(states).squeeze(1)
        return values
