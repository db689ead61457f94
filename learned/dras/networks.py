"""The compact network in torch: dense states for the algorithms without a critic, packed ones for those with one.

A window of fifty slots has few legal ones as a rule. A batch of choices is a table of the features of all their legal
slots, and where each choice's begin; so empty slots cost neither room nor work.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from allocopt.arrays import BoolArray, Float32Array, IntArray
from learned.rl.networks import Policy, dense
from learned.rl.slots import LEAK, CompactNetwork


def slot_layers(network: CompactNetwork) -> nn.Sequential:
    """Return the layers that look at one slot: features to one value."""
    return dense(network.features, network.first, network.second, 1, activation=nn.LeakyReLU(LEAK))


class SlotNetwork(nn.Module):
    """The compact network's actor or Q-network: states ``(B, W, K)`` to one value per slot, ``(B, W)``.

    A slot is empty where all its features are 0; its value is 0 and costs nothing.
    """

    def __init__(self, network: CompactNetwork) -> None:
        super().__init__()
        self.actor = slot_layers(network)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the network to every slot that is not empty."""
        occupied = states[:, :, 0] != 0
        values = states.new_zeros(states.shape[:2])
        values[occupied] = self.actor(states[occupied]).squeeze(-1)
        return values


@dataclass(frozen=True, slots=True)
class SlotStates:
    """States of ``n`` choices with ``R`` legal slots in all."""

    rows: torch.Tensor  # Features of the legal slots, choice after choice, shape ``(R, K)``
    slots: torch.Tensor  # Slot of each row, shape ``(R,)``
    first: torch.Tensor  # Where each choice's rows begin, and where the last one's end, shape ``(n + 1,)``
    pooled: torch.Tensor  # Mean and greatest value of every feature over the rows of a choice, shape ``(n, 2 K)``

    def __len__(self) -> int:
        return len(self.pooled)

    def __getitem__(self, chosen: torch.Tensor) -> "SlotStates":
        """Return some choices, by their numbers."""
        begin, counts = self.first[chosen], self.first[chosen + 1] - self.first[chosen]
        first = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        places = torch.arange(int(first[-1])) + torch.repeat_interleave(begin - first[:-1], counts)
        return SlotStates(self.rows[places], self.slots[places], first, self.pooled[chosen])

    @property
    def choices(self) -> torch.Tensor:
        """Number of each row's choice, shape ``(R,)``."""
        return torch.repeat_interleave(torch.arange(len(self)), self.first[1:] - self.first[:-1])


Packed = tuple[Float32Array, IntArray, IntArray]


def packed(states: Float32Array, legal: BoolArray) -> Packed:
    """Return features and slots of the legal slots of dense states ``(n, W, K)``, and their number per choice."""
    return states[legal], np.nonzero(legal)[1], legal.sum(axis=1)


def joined(parts: list[Packed]) -> SlotStates:
    """Put the results of `packed` together; every choice must have a legal slot."""
    rows, slots, counts = (np.concatenate([part[i] for part in parts]) for i in range(3))
    first = np.concatenate(([0], np.cumsum(counts)))
    means = np.add.reduceat(rows, first[:-1], axis=0) / counts[:, None].astype(np.float32)
    pooled = np.concatenate((means, np.maximum.reduceat(rows, first[:-1], axis=0)), axis=1)
    return SlotStates(*(torch.from_numpy(array) for array in (rows, slots, first, pooled)))


class SlotActorCritic(Policy):
    """The compact network with its critic, which looks at the pooled features; takes `SlotStates`."""

    def __init__(self, network: CompactNetwork) -> None:
        super().__init__()
        self.actor = slot_layers(network)
        self.critic = dense(2 * network.features, network.critic, 1, activation=nn.LeakyReLU(LEAK))

    def log_probabilities(self, states: SlotStates, legal: torch.Tensor) -> torch.Tensor:
        """Logarithms of the probabilities of all actions, shape ``(n, W)``; of illegal ones the smallest there is."""
        logits = states.rows.new_full(legal.shape, torch.finfo(states.rows.dtype).min)
        logits[states.choices, states.slots] = self.actor(states.rows).squeeze(-1)
        return torch.log_softmax(logits, dim=1)

    def values(self, states: SlotStates) -> torch.Tensor:
        """Values of states, shape ``(n,)``."""
        values: torch.Tensor = self.critic(states.pooled).squeeze(1)
        return values
