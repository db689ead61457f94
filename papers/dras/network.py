"""The paper's network (Table 3), in torch and without it: its sizes, and the times of decisions and updates.

It looks at rows of two numbers, two rows per job of the window and one per node. A convolution with one 1x2 filter
makes one value of each row; two dense layers without bias and with leaky rectifiers follow, and an output layer with
bias.

The first dense layer of a large machine has far more weights than a decision can read in time. But idle nodes, and the
nodes of one job, look alike, so that the rows of the nodes come in runs of equal ones. With ``C[r]`` the sum of the
weights of the first ``r`` nodes, a run of rows ``a .. b - 1`` of value ``v`` adds ``v (C[b] - C[a])``; so one row of C
is read per run instead of one row of weights per node. Where all nodes differ, nothing is lost.
"""

import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from allocopt.arrays import Float32Array
from learned.rl.algorithms import Rollout, descend
from learned.rl.networks import Policy, SlotNetwork, masked_log_softmax, weights_of
from learned.rl.slots import LEAK, CompactNetwork, SlotPolicy
from learned.rl.training import A2cSettings
from learned.weights import check_shapes

ROWS_PER_JOB = 2


@dataclass(frozen=True, slots=True)
class PaperNetwork:
    """Sizes of the paper's network.

    ``jobs`` are those that one input shows, the window's or 1 for ``dras-dql``; ``first`` and ``second`` are the
    neurons of the fully connected layers.
    """

    jobs: int
    nodes: int
    first: int
    second: int
    outputs: int

    @property
    def rows(self) -> int:
        """Rows of the input, and neurons of the convolutional layer."""
        return ROWS_PER_JOB * self.jobs + self.nodes

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters by name."""
        return {
            "filter.weight": (1, 2),
            "filter.bias": (1,),
            "first.weight": (self.first, self.rows),
            "second.weight": (self.second, self.first),
            "output.weight": (self.outputs, self.second),
            "output.bias": (self.outputs,),
        }


THETA_NODES, THETA_LAYERS = 4360, (4000, 1000)
WINDOW = 50
"""Jobs of the paper's window."""


def paper_network(agent: str, nodes: int, layers: tuple[int, int]) -> PaperNetwork:
    """Return the network of an agent: ``dql``, ``pg``, ``a2c`` or ``ppo``.

    ``a2c`` and ``ppo`` have one output more than the window: actor and critic share all layers but the last.
    """
    if agent == "dql":
        return PaperNetwork(1, nodes, *layers, 1)
    return PaperNetwork(WINDOW, nodes, *layers, WINDOW + (agent in ("a2c", "ppo")))


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
        """Apply a network of one job to every job of a window: states ``(B, 2 W + nodes, 2)`` to values ``(B, W)``.

        What the nodes add to the first layer is computed once for all jobs.
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


class _PaperActorCritic(Policy):
    # The network of A2C and PPO: its last output is the critic's.
    def __init__(self, network: PaperNetwork) -> None:
        super().__init__()
        self.module = PaperModule(network)

    def log_probabilities(self, states: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        return masked_log_softmax(self.module(states)[:, :-1], legal)

    def values(self, states: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.module(states)[:, -1]
        return values


@dataclass(frozen=True, slots=True, eq=False)
class RowNetwork:
    """The weights of a network, arranged for one state at a time without torch."""

    network: PaperNetwork
    filter_weight: Float32Array  # Of the convolution, shapes ``(2,)`` and ``(1,)``
    filter_bias: Float32Array
    job_weights: Float32Array  # Of the first layer, for the rows of jobs, shape ``(2 jobs, first)``
    node_sums: Float32Array  # Sums of its weights for the rows of the first nodes, shape ``(nodes + 1, first)``
    # Of the layers that follow, transposed: shapes ``(first, second)``, ``(second, outputs)`` and ``(outputs,)``
    second: Float32Array
    output: Float32Array
    output_bias: Float32Array

    @classmethod
    def of(cls, network: PaperNetwork, weights: Mapping[str, Float32Array]) -> "RowNetwork":
        """Arrange weights; raises `ValueError` if one is missing, or has another shape."""
        check_shapes(network.shapes(), weights)
        first = weights["first.weight"].T
        n_job_rows = ROWS_PER_JOB * network.jobs
        sums = np.zeros((network.nodes + 1, network.first), dtype=np.float32)
        total = np.zeros(network.first)
        for row in range(network.nodes):
            total += first[n_job_rows + row]
            sums[row + 1] = total
        return cls(
            network,
            weights["filter.weight"][0].copy(),
            weights["filter.bias"],
            np.ascontiguousarray(first[:n_job_rows]),
            sums,
            np.ascontiguousarray(weights["second.weight"].T),
            np.ascontiguousarray(weights["output.weight"].T),
            weights["output.bias"],
        )

    def outputs(self, state: Float32Array) -> Float32Array:
        """Return the outputs for one state, rows of W jobs and of nodes of shape ``(2 W + nodes, 2)``.

        A network of W jobs has one row of outputs, a network of one job a row for each.
        """
        rows = state @ self.filter_weight + self.filter_bias
        jobs, nodes = rows[: -self.network.nodes], rows[-self.network.nodes :]
        ends = np.append(np.flatnonzero(nodes[1:] != nodes[:-1]) + 1, len(nodes))
        values = np.append(nodes[ends - 1], np.float32(0.0))
        of_nodes = (values[:-1] - values[1:]) @ self.node_sums[ends]
        first = jobs.reshape(-1, ROWS_PER_JOB * self.network.jobs) @ self.job_weights + of_nodes
        second = _leaky(np.asarray(first, dtype=np.float32)) @ self.second
        return np.asarray(_leaky(second) @ self.output + self.output_bias)


def _leaky(values: Float32Array) -> Float32Array:
    np.maximum(values, values * np.float32(LEAK), out=values)
    return values


RUNNING, CHOICES, FEATURES, REPEATS = 34, 30, 21, 30
"""Running jobs in the states, the most there can be; choices of an update, about ten scheduling instances."""


def _state(rng: np.random.Generator) -> Float32Array:
    nodes = np.repeat(rng.random((RUNNING, 2)), -(-THETA_NODES // RUNNING), axis=0)[:THETA_NODES]
    return np.concatenate((rng.random((2 * WINDOW, 2)), nodes)).astype(np.float32)


def _median_ms(what: Callable[[], Any], repeats: int = REPEATS) -> float:
    what()  # Does not count
    return 1e3 * float(np.median(timeit.repeat(what, timer=time.process_time, repeat=repeats, number=1)))


def decision_times(rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    """Time decisions on Theta with random weights; yield what, milliseconds, and how many they may be."""
    given = _state(rng)
    for agent in ("pg", "a2c", "ppo", "dql"):
        network = paper_network(agent, THETA_NODES, THETA_LAYERS)
        weights = {name: rng.normal(0, 0.02, shape).astype(np.float32) for name, shape in network.shapes().items()}
        rows = RowNetwork.of(network, weights)
        ms = _median_ms(partial(rows.outputs, given))
        yield f"decision, paper's network, {agent}", ms, 15.0 if agent == "dql" else 5.0
    policy = SlotPolicy.of(weights_of(SlotNetwork(CompactNetwork(FEATURES))))
    slots, legal = rng.random((WINDOW, FEATURES)).astype(np.float32), np.ones(WINDOW, dtype=np.bool_)
    yield "decision, compact network", _median_ms(lambda: policy(slots, legal), 300), 0.2


def update_times(rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    """Time gradient steps of the paper's networks; yield what `decision_times` yields."""
    states = torch.from_numpy(np.stack([_state(rng) for _ in range(CHOICES)]))
    legal, actions = torch.ones(CHOICES, WINDOW, dtype=torch.bool), torch.arange(CHOICES)
    gains = torch.from_numpy(rng.normal(size=CHOICES)).float()
    rollout = Rollout(states, legal, actions, gains, gains, gains, 0.0)
    shared = _PaperActorCritic(paper_network("ppo", THETA_NODES, THETA_LAYERS))
    policy = PaperModule(paper_network("pg", THETA_NODES, THETA_LAYERS))
    values = PaperModule(paper_network("dql", THETA_NODES, THETA_LAYERS))

    def gradient() -> torch.Tensor:
        taken: torch.Tensor = masked_log_softmax(policy(states), legal).gather(1, actions[:, None]).squeeze(1)
        return -(taken * gains).mean()

    def difference() -> torch.Tensor:
        with torch.no_grad():
            targets = gains + values.job_values(states).max(1).values
        taken: torch.Tensor = values.job_values(states).gather(1, actions[:, None]).squeeze(1)
        squares: torch.Tensor = (targets - taken).square()
        return squares.mean()

    losses: tuple[tuple[str, nn.Module, Callable[[], torch.Tensor]], ...] = (
        ("a2c, ppo", shared, lambda: rollout.loss(shared, A2cSettings())[0]),
        ("pg", policy, gradient),
        ("dql", values, difference),
    )
    for name, module, loss in losses:
        parameters = list(module.parameters())
        optimizer = torch.optim.Adam(parameters, lr=1e-3)
        step = lambda o=optimizer, p=parameters, compute=loss: descend(o, p, compute(), 0.5)  # noqa: E731
        yield f"update, paper's network, {name}", _median_ms(step, 5), 1000.0
