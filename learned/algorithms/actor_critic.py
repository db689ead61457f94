"""A policy over masked, discrete actions and its critic.

An illegal action gets the smallest logit there is, so that its probability is zero (NSA paper, section V-B2).
"""

from typing import Any

import torch
from torch import nn


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
        logits = self.actor(states)
        masked = logits.masked_fill(~legal, torch.finfo(logits.dtype).min)
        return torch.log_softmax(masked, dim=1)

    def values(self, states: torch.Tensor) -> torch.Tensor:
        """Values of states, shape ``(batch,)``."""
        values: torch.Tensor = self.critic(states).squeeze(1)
        return values
