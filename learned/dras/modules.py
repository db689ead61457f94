"""The networks of DRAS as torch modules."""

from itertools import pairwise

import torch
from torch import nn

from learned.algorithms.actor_critic import Policy, masked_log_softmax
from learned.inference.networks import LEAK, ROWS_PER_JOB, CompactNetwork, PaperNetwork


class PaperModule(nn.Module):
    """The paper's network, without a softmax: states ``(B, rows, 2)`` to outputs ``(B, outputs)``."""

    def __init__(self, network: PaperNetwork) -> None:
        super().__init__()
        self.network = network
        # A convolution with one 1x2 filter over rows of two numbers is a linear map of each row.
        self.filter = nn.Linear(2, 1)
        self.first = nn.Linear(network.rows, network.first, bias=False)
        self.second = nn.Linear(network.first, network.second, bias=False)
        self.output = nn.Linear(network.second, network.outputs)
        self.activation = nn.LeakyReLU(LEAK)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Apply all layers."""
        return self._rest(self.first(self.filter(states).squeeze(-1)))

    def job_values(self, states: torch.Tensor) -> torch.Tensor:
        """Apply a network of one job to every job of a window.

        Parameters
        ----------
        states
            Rows of W jobs and of all nodes, shape ``(B, 2 W + nodes, 2)``.

        Returns
        -------
        torch.Tensor
            Outputs, shape ``(B, W)``. What the nodes add to the first layer is computed once for all jobs.
        """
        rows = self.filter(states).squeeze(-1)
        jobs, nodes = rows[:, : -self.network.nodes], rows[:, -self.network.nodes :]
        weight = self.first.weight
        of_nodes = nodes @ weight[:, ROWS_PER_JOB:].T
        of_jobs = jobs.unflatten(1, (-1, ROWS_PER_JOB)) @ weight[:, :ROWS_PER_JOB].T
        return self._rest(of_jobs + of_nodes[:, None]).squeeze(-1)

    def _rest(self, first: torch.Tensor) -> torch.Tensor:
        """Apply what follows the first dense layer's sums."""
        outputs: torch.Tensor = self.output(self.activation(self.second(self.activation(first))))
        return outputs


class PaperJobValues(nn.Module):
    """The paper's DQL network, one job at a time: states of a whole window to a value per job."""

    def __init__(self, network: PaperNetwork) -> None:
        super().__init__()
        self.module = PaperModule(network)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Values, shape ``(B, W)``."""
        return self.module.job_values(states)


class PaperActorCritic(Policy):
    """The paper's A2C and PPO network: its last output is the critic's."""

    def __init__(self, network: PaperNetwork) -> None:
        super().__init__()
        self.module = PaperModule(network)

    def log_probabilities(self, states: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        """Logarithms of the probabilities of all actions, shape ``(batch, actions)``."""
        logits = self.module(states)[:, :-1]
        return masked_log_softmax(logits, legal)

    def values(self, states: torch.Tensor) -> torch.Tensor:
        """Values of states, shape ``(batch,)``."""
        values: torch.Tensor = self.module(states)[:, -1]
        return values


def layers(*sizes: int) -> nn.Sequential:
    """Dense layers with leaky rectifiers between them."""
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        modules += [nn.Linear(inputs, outputs), nn.LeakyReLU(LEAK)]
    return nn.Sequential(*modules[:-1])


class SlotNetwork(nn.Module):
    """The compact network's actor or Q-network: states ``(B, W, K)`` to one value per slot, ``(B, W)``.

    A slot is empty where all its features are 0; its value is 0 and costs nothing.
    """

    def __init__(self, network: CompactNetwork) -> None:
        super().__init__()
        self.actor = layers(network.features, network.first, network.second, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the network to every slot that is not empty."""
        occupied = states[:, :, 0] != 0
        values = states.new_zeros(states.shape[:2])
        values[occupied] = self.actor(states[occupied]).squeeze(-1)
        return values


class PooledCritic(nn.Module):
    """The compact network's critic: states ``(B, W, K)`` to ``(B, 1)``, by mean and maximum over occupied slots."""

    def __init__(self, network: CompactNetwork) -> None:
        super().__init__()
        self.critic = layers(2 * network.features, network.critic, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the network to the pooled features."""
        number = (states[:, :, :1] != 0).sum(1).clamp(min=1)
        values: torch.Tensor = self.critic(torch.cat((states.sum(1) / number, states.amax(1)), dim=1))
        return values
