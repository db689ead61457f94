"""Policies over masked, discrete actions, their critics, and the parameters of modules as arrays.

An illegal action gets the smallest logit there is, so that its probability is zero (NSA paper, section V-B2).
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from allocopt.arrays import Float32Array


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
    """A policy and a critic, two networks over the same states: one logit per action, and a value ``(batch, 1)``."""

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        super().__init__()
        self.actor = actor
        self.critic = critic

    def log_probabilities(self, states: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        """Logarithms of the probabilities of all actions; see `Policy`."""
        return masked_log_softmax(self.actor(states), legal)

    def values(self, states: torch.Tensor) -> torch.Tensor:
        """Values of states; see `Policy`."""
        values: torch.Tensor = self.critic(states).squeeze(1)
        return values


def dense(*sizes: int, activation: nn.Module) -> nn.Sequential:
    """Return dense layers with an activation between them."""
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        modules += [nn.Linear(inputs, outputs), activation]
    return nn.Sequential(*modules[:-1])


def scale_last_layer(network: nn.Sequential, gain: float) -> None:
    """Scale the initial weights of the last layer: small ones make the first policy nearly uniform."""
    with torch.no_grad():
        for parameter in network[-1].parameters():
            parameter.mul_(gain)


def weights_of(module: nn.Module) -> dict[str, Float32Array]:
    """Return the parameters of a module as arrays by name."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def set_weights(module: nn.Module, weights: Mapping[str, Float32Array]) -> None:
    """Set the parameters of a module; raises RuntimeError if names or shapes are others."""
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
