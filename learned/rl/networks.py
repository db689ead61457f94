"""Policies over masked, discrete actions, their critics, and the parameters of modules as arrays.

An illegal action gets the smallest finite logit, so that its probability is zero (NSA paper, section V-B2). Algorithms
with a critic take packed states, because few of the fifty slots of a window are legal, and the others should cost
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from allocopt.arrays import BoolArray, Float32Array
from allocopt.learned.rl.slots import LEAK, CompactNetwork


def masked(values: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
    """Return values of actions, where illegal actions have the smallest finite number."""
    return values.masked_fill(~legal, torch.finfo(values.dtype).min)


def masked_log_softmax(logits: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
    """Return the logarithms of the probabilities of actions, shape ``(batch, actions)``."""
    return torch.log_softmax(masked(logits, legal), dim=1)


class Policy(nn.Module):
    """Base class of a policy with a critic."""

    def log_probabilities(self, states: Any, legal: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of the probabilities of all actions, shape ``(batch, actions)``."""
        raise NotImplementedError

    def values(self, states: Any) -> torch.Tensor:
        """Return the values of states, shape ``(batch,)``."""
        raise NotImplementedError


class ActorCritic(Policy):
    """A policy and a critic, two networks over the same states: a logit per action, and a value ``(batch, 1)``."""

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        super().__init__()
        self.actor = actor
        self.critic = critic

    def log_probabilities(self, states: Any, legal: torch.Tensor) -> torch.Tensor:
        return masked_log_softmax(self.actor(states), legal)

    def values(self, states: Any) -> torch.Tensor:
        values: torch.Tensor = self.critic(states).squeeze(1)
        return values


def dense(*sizes: int, activation: nn.Module) -> nn.Sequential:
    """Return dense layers with an activation between them."""
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        modules += [nn.Linear(inputs, outputs), activation]
    return nn.Sequential(*modules[:-1])


def scale_last_layer(network: nn.Sequential, gain: float) -> None:
    """Scale the initial weights of the last layer; small weights make the first policy nearly uniform."""
    with torch.no_grad():
        for parameter in network[-1].parameters():
            parameter.mul_(gain)


def weights_of(module: nn.Module) -> dict[str, Float32Array]:
    """Return the parameters of a module as arrays by name."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def set_weights(module: nn.Module, weights: Mapping[str, Float32Array]) -> None:
    """Set the parameters of a module; raises RuntimeError if names or shapes differ."""
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})


def slot_logits(layers: nn.Module, rows: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
    """Return the logits of slots, shape ``(n, W)``, from the features of the legal ones.

    Other slots get the smallest finite number.
    """
    logits = rows.new_full(legal.shape, torch.finfo(rows.dtype).min)
    logits[legal] = layers(rows).squeeze(-1)
    return logits


class SlotNetwork(nn.Module):
    """The compact network's actor or Q-network: maps states ``(B, W, K)`` to one value per slot, ``(B, W)``.

    A slot is empty if its first feature is 0; then its value is 0 and is not computed.
    """

    def __init__(self, network: CompactNetwork) -> None:
        super().__init__()
        self.actor = dense(network.features, network.first, network.second, 1, activation=nn.LeakyReLU(LEAK))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        occupied = states[:, :, 0] != 0
        values = states.new_zeros(states.shape[:2])
        values[occupied] = self.actor(states[occupied]).squeeze(-1)
        return values


@dataclass(frozen=True, slots=True)
class SlotStates:
    """States of ``n`` choices with ``R`` legal slots in all."""

    rows: torch.Tensor  # Features of the legal slots, choice after choice, slots rising, shape ``(R, K)``
    first: torch.Tensor  # First row of each choice, and the end of the last choice, shape ``(n + 1,)``
    pooled: torch.Tensor  # Mean and maximum of every feature over the rows of a choice, shape ``(n, 2 K)``

    @classmethod
    def joined(cls, rows: Sequence[Float32Array], legal: BoolArray) -> "SlotStates":
        """Join features ``(r, K)`` of the legal slots of many choices, in order; every choice has a legal slot."""
        whole, counts = np.concatenate(rows), legal.sum(axis=1)
        first = np.concatenate(([0], np.cumsum(counts)))
        means = np.add.reduceat(whole, first[:-1], axis=0) / counts[:, None].astype(np.float32)
        pooled = np.concatenate((means, np.maximum.reduceat(whole, first[:-1], axis=0)), axis=1)
        return cls(*(torch.from_numpy(array) for array in (whole, first, pooled)))

    def __len__(self) -> int:
        return len(self.pooled)

    def __getitem__(self, chosen: torch.Tensor) -> "SlotStates":
        """Return some choices, by their numbers."""
        begin, counts = self.first[chosen], self.first[chosen + 1] - self.first[chosen]
        first = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        places = torch.arange(int(first[-1])) + torch.repeat_interleave(begin - first[:-1], counts)
        return SlotStates(self.rows[places], first, self.pooled[chosen])


class SlotActorCritic(ActorCritic):
    """The compact network with its critic, whose input is the pooled features; takes `SlotStates`."""

    def __init__(self, network: CompactNetwork) -> None:
        critic = (2 * network.features, network.critic, 1)
        super().__init__(SlotNetwork(network).actor, dense(*critic, activation=nn.LeakyReLU(LEAK)))

    def log_probabilities(self, states: SlotStates, legal: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(slot_logits(self.actor, states.rows, legal), dim=1)

    def values(self, states: SlotStates) -> torch.Tensor:
        return super().values(states.pooled)
