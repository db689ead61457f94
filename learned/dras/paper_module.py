"""The DRAS paper's network in torch, for trainings; see `allocopt.learned.dras.paper_network`."""

import torch
from torch import nn

from allocopt.learned.dras.paper_network import ROWS_PER_JOB, PaperNetwork
from allocopt.learned.rl.networks import Policy, masked_log_softmax
from allocopt.learned.rl.slots import LEAK


class PaperModule(nn.Module):
    """The paper's network, without a softmax: maps states ``(B, rows, 2)`` to outputs ``(B, outputs)``."""

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

        It maps states ``(B, 2 W + nodes, 2)`` to values ``(B, W)``. The part of the first layer that comes from the
        nodes is computed once for all jobs.
        """
        rows = self.filter(states).squeeze(-1)
        jobs, nodes = rows[:, : -self.network.nodes], rows[:, -self.network.nodes :]
        weight = self.first.weight
        of_nodes = nodes @ weight[:, ROWS_PER_JOB:].T
        of_jobs = jobs.unflatten(1, (-1, ROWS_PER_JOB)) @ weight[:, :ROWS_PER_JOB].T
        return self._rest(of_jobs + of_nodes[:, None]).squeeze(-1)

    def _rest(self, first: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.output(self.activation(self.second(self.activation(first))))
        return outputs


class PaperActorCritic(PaperModule, Policy):
    """The network of A2C and PPO: its last output is the critic's."""

    def log_probabilities(self, states: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of the probabilities of all actions, shape ``(B, W)``."""
        return masked_log_softmax(self(states)[:, :-1], legal)

    def values(self, states: torch.Tensor) -> torch.Tensor:
        """Return the values of states, shape ``(B,)``."""
        values: torch.Tensor = self(states)[:, -1]
        return values


class PaperValues(PaperModule):
    """The network of deep Q-learning: maps states to the values of the window's jobs, ``(B, W)``."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Apply the network to each job."""
        return self.job_values(states)
