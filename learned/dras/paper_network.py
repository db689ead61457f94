"""The DRAS paper's network (Table 3) without torch: its sizes, its outputs for one state at a time, and its policy.

The input has rows of two numbers, two rows per job of the window and one per node. A convolution with one 1x2 filter
makes one value of each row. Two dense layers without bias and with leaky rectifiers follow, then an output layer with
bias.

The first dense layer of a large machine has far more weights than a decision can read in time. But all idle nodes have
equal rows, and so have the nodes of one job, so that equal rows often follow each other. Let ``C[r]`` be the sum of the
weights of the first ``r`` nodes. Then successive rows ``a .. b - 1`` with the same value ``v`` add ``v (C[b] - C[a])``.
So one row of C is read per group of equal rows, instead of one row of weights per node. If all nodes differ, this costs
no more than the direct product.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.learned.rl.slots import LEAK
from allocopt.learned.weights import check_shapes

ROWS_PER_JOB = 2


@dataclass(frozen=True, slots=True)
class PaperNetwork:
    """Sizes of the paper's network.

    ``jobs`` is the number of jobs in one input: the window's, or 1 for ``dras-dql``. ``first`` and ``second`` are the
    numbers of neurons of the dense layers.
    """

    jobs: int
    nodes: int
    first: int
    second: int
    outputs: int

    @classmethod
    def of(cls, weights: Mapping[str, Float32Array], window: int) -> "PaperNetwork":
        """Return the sizes of the network with these weights, which was made for a window of ``window`` jobs.

        Raises ValueError if the weights are not those of such a network.
        """
        for name in ("first.weight", "output.weight"):
            if name not in weights or weights[name].ndim != 2:
                raise ValueError(f"parameter {name!r} is missing or not a matrix")
        (first, rows), (outputs, second) = weights["first.weight"].shape, weights["output.weight"].shape
        jobs = 1 if outputs == 1 else window
        network = cls(jobs, rows - ROWS_PER_JOB * jobs, first, second, outputs)
        check_shapes(network.shapes(), weights)
        return network

    @property
    def rows(self) -> int:
        """Number of rows of the input, and of neurons of the convolutional layer."""
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
"""Number of jobs in the paper's window."""


def paper_network(agent: str, nodes: int, layers: tuple[int, int], window: int = WINDOW) -> PaperNetwork:
    """Return the network of an agent: ``dql``, ``pg``, ``a2c`` or ``ppo``.

    ``a2c`` and ``ppo`` have one output more than the window has jobs: actor and critic share all layers but the last.
    """
    if agent == "dql":
        return PaperNetwork(1, nodes, *layers, 1)
    return PaperNetwork(window, nodes, *layers, window + (agent in ("a2c", "ppo")))


@dataclass(frozen=True, slots=True, eq=False)
class RowNetwork:
    """The weights of a network, arranged for one state at a time without torch."""

    network: PaperNetwork
    filter_weight: Float32Array  # Weights and bias of the convolution, shapes ``(2,)`` and ``(1,)``
    filter_bias: Float32Array
    job_weights: Float32Array  # Weights of the first layer for the rows of jobs, shape ``(2 jobs, first)``
    # Sums C of the weights of the first layer for the rows of the first nodes, shape ``(nodes + 1, first)``
    node_sums: Float32Array
    # Weights of the next layers, transposed: shapes ``(first, second)``, ``(second, outputs)`` and ``(outputs,)``
    second: Float32Array
    output: Float32Array
    output_bias: Float32Array

    @classmethod
    def of(cls, network: PaperNetwork, weights: Mapping[str, Float32Array]) -> "RowNetwork":
        """Arrange weights; raises `ValueError` if one is missing or has a wrong shape."""
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
        """Return the outputs for one state, which has rows of W jobs and of nodes, shape ``(2 W + nodes, 2)``.

        A network of W jobs returns one row of outputs, a network of one job returns a row for each job.
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


@dataclass(frozen=True, slots=True)
class PaperPolicy:
    """The paper's network as a policy: makes one choice or many; see `allocopt.learned.rl.slots.SlotPolicy`."""

    network: RowNetwork
    window: int

    @classmethod
    def of(cls, weights: Mapping[str, Float32Array], window: int) -> "PaperPolicy":
        """Arrange weights; raises ValueError if they are not those of a network for a window of ``window`` jobs."""
        return cls(RowNetwork.of(PaperNetwork.of(weights, window), weights), window)

    def __call__(self, observation: Float32Array, legal: BoolArray) -> int:
        """Return the best legal slot."""
        return int(self._values(observation, legal).argmax())

    def choose(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray | None = None) -> IntArray:
        """Return the best legal slots, or draw them by the softmax of their values with ``uniform`` random numbers.

        Observations have shape ``(E, 2 W + N, 2)``, ``legal`` has shape ``(E, W)``. Every state has a legal slot.
        """
        slots = []
        for number, (observation, may) in enumerate(zip(observations, legal, strict=True)):
            values = self._values(observation, may)
            if uniform is None:
                slots.append(int(values.argmax()))
                continue
            cumulative = np.exp((values - values.max()).astype(np.float64)).cumsum()
            drawn = int(np.searchsorted(cumulative, uniform[number] * cumulative[-1], side="right"))
            slots.append(min(drawn, int(np.flatnonzero(may)[-1])))
        return np.array(slots, dtype=np.int64)

    def _values(self, observation: Float32Array, legal: BoolArray) -> Float32Array:
        nodes, made_for = len(observation) - ROWS_PER_JOB * self.window, self.network.network.nodes
        if nodes != made_for:
            raise UsageError(
                f"the agent's network is made for {made_for} nodes, this machine has {nodes}; train another agent"
            )
        values = self.network.outputs(observation).reshape(-1)[: self.window]
        return np.where(legal, values, np.float32(-np.inf))
