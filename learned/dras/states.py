"""What was seen in many choices, packed: only legal slots are kept, and described once for actor and critic.

A window of fifty slots has few legal ones as a rule. A batch of choices is a table of the features of all their legal
slots, and where each choice's begin; so empty slots cost neither room nor work.
"""

from dataclasses import dataclass

import numpy as np
import torch

from allocopt.arrays import BoolArray, Float32Array, IntArray
from learned.algorithms.actor_critic import Policy
from learned.dras.modules import PooledCritic, SlotNetwork


@dataclass(frozen=True, slots=True)
class SlotStates:
    """States of ``n`` choices with ``R`` legal slots in all.

    Parameters
    ----------
    rows
        Features of the legal slots, choice after choice, shape ``(R, K)``.
    slots
        Slot of each row, shape ``(R,)``.
    first
        Where each choice's rows begin, and where the last one's end, shape ``(n + 1,)``.
    pooled
        Mean and greatest value of every feature over the rows of a choice, shape ``(n, 2 K)``.
    """

    rows: torch.Tensor
    slots: torch.Tensor
    first: torch.Tensor
    pooled: torch.Tensor

    def __len__(self) -> int:
        """Return the number of choices."""
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
    """The compact network: an actor whose weights are shared over the slots, and a critic.

    Takes packed states.
    """

    def __init__(self, actor: SlotNetwork, critic: PooledCritic) -> None:
        super().__init__()
        self.actor = actor.actor
        self.critic = critic.critic

    def log_probabilities(self, states: SlotStates, legal: torch.Tensor) -> torch.Tensor:
        """Logarithms of the probabilities of all actions, shape ``(n, W)``; of illegal ones the smallest there is."""
        smallest = torch.finfo(states.rows.dtype).min
        logits = states.rows.new_full(legal.shape, smallest)
        logits[states.choices, states.slots] = self.actor(states.rows).squeeze(-1)
        return torch.log_softmax(logits, dim=1)

    def values(self, states: SlotStates) -> torch.Tensor:
        """Values of states, shape ``(n,)``."""
        values: torch.Tensor = self.critic(states.pooled).squeeze(1)
        return values
