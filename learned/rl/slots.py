"""The compact network, which values every slot of a queue by the same weights; as kernels, without torch.

Two dense layers with leaky rectifiers take the K features of one slot at a time, so that the network's size depends
neither on the length of the queue nor on the machine. The critic is another small network, whose input is the mean and
the maximum of every feature.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from numba import boolean, float32, float64, int64

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.kernels.arrays import record_type
from allocopt.kernels.compiled import helper, kernel
from allocopt.learned.weights import check_shapes

LEAK = 0.01  # Slope of the leaky rectifier below zero, the default of torch
SLOPE = np.float32(LEAK)
_NOT_DRAWN = np.empty(0)  # Passed instead of random numbers when the best actions are chosen


@dataclass(frozen=True, slots=True)
class CompactNetwork:
    """Sizes of the compact network."""

    features: int  # Number of features K of a slot
    # Neurons of the two hidden layers, per slot
    first: int = 32
    second: int = 16
    critic: int = 32  # Neurons of the critic's hidden layer; 0 without a critic

    @classmethod
    def of(cls, weights: Mapping[str, Float32Array]) -> "CompactNetwork":
        """Return the sizes of the network with these weights; raises ValueError if they are not of such a network."""
        for name in ("actor.0.weight", "actor.2.weight"):
            if name not in weights or weights[name].ndim != 2:
                raise ValueError(f"parameter {name!r} is missing or not a matrix")
        first, features = weights["actor.0.weight"].shape
        critic = weights["critic.0.weight"].shape[0] if "critic.0.weight" in weights else 0
        network = cls(features, first, weights["actor.2.weight"].shape[0], critic)
        check_shapes(network.shapes(), weights)
        return network

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters by name."""
        actor, critic = (self.features, self.first, self.second, 1), (2 * self.features, self.critic, 1)
        shapes: dict[str, tuple[int, ...]] = {}
        for part, sizes in (("actor", actor), ("critic", critic if self.critic else ())):
            for index, (inputs, outputs) in enumerate(pairwise(sizes)):
                # Torch's `Sequential` also counts the rectifiers between the layers
                shapes |= {f"{part}.{2 * index}.weight": (outputs, inputs), f"{part}.{2 * index}.bias": (outputs,)}
        return shapes


class _PackedSlots(NamedTuple):
    """Transposed weights and biases of a compact network's actor, for kernels."""

    one: Annotated[Float32Array, 2]
    one_bias: Float32Array
    two: Annotated[Float32Array, 2]
    two_bias: Float32Array
    three: Float32Array
    three_bias: Float32Array
    hidden: Annotated[Float32Array, 2]  # Scratch space, shape ``(2, max(first, second))``


PACKED_SLOTS = record_type(_PackedSlots)


@helper(allocates=True, fastmath=True, error_model="numpy")
def _write_values(network: _PackedSlots, features: Float32Array, legal: BoolArray, values: Float32Array) -> int:
    # Write the values of all slots up to the last legal one, and return their number; features: shape ``(W, K)``.
    end = legal.size
    while end > 0 and not legal[end - 1]:
        end -= 1
    n_features, n_first = network.one.shape
    n_second = network.two.shape[1]
    first, second = network.hidden[0], network.hidden[1]
    for slot in range(end):
        for o in range(n_first):
            first[o] = network.one_bias[o]
        for i in range(n_features):
            x = features[slot, i]
            for o in range(n_first):
                first[o] += x * network.one[i, o]
        for o in range(n_second):
            second[o] = network.two_bias[o]
        for i in range(n_first):
            x = max(first[i], SLOPE * first[i])
            for o in range(n_second):
                second[o] += x * network.two[i, o]
        value = network.three_bias[0]
        for o in range(n_second):
            value += max(second[o], SLOPE * second[o]) * network.three[o]
        values[slot] = value
    return int(end)


@kernel(
    int64[::1](PACKED_SLOTS, float32[:, :, ::1], boolean[:, ::1], float64[::1]), allocates=True, error_model="numpy"
)
def _choose_actions(network: _PackedSlots, states: Float32Array, legal: BoolArray, uniform: FloatArray) -> IntArray:
    actions, values = np.zeros(legal.shape[0], dtype=np.int64), np.empty(legal.shape[1], dtype=np.float32)
    for e in range(actions.size):
        end = _write_values(network, states[e], legal[e], values)
        best = -1
        for slot in range(end):
            if legal[e, slot] and (best < 0 or values[slot] > values[best]):
                best = slot
        actions[e] = best
        if uniform.size == 0:
            continue
        # Softmax; subtract the greatest value first, so that exponentials do not overflow.
        most, total = values[best], 0.0
        for slot in range(end):
            if legal[e, slot]:
                values[slot] = np.exp(values[slot] - most)
                total += values[slot]
        left = uniform[e] * total
        for slot in range(end):
            if legal[e, slot]:
                actions[e] = slot
                left -= values[slot]
                if left < 0.0:
                    break
    return actions


@dataclass(slots=True, eq=False)
class SlotPolicy:
    """A compact network as a policy: one choice at a time (`allocopt.envs.dras.task.Policy`), or many at once."""

    network: _PackedSlots

    @classmethod
    def of(cls, weights: Mapping[str, Float32Array]) -> "SlotPolicy":
        """Arrange a compact network's actor for one caller; raises ValueError if the weights are of another network."""
        network = CompactNetwork.of(weights)
        arrays = [np.ascontiguousarray(weights[f"actor.{index}.weight"].T, dtype=np.float32) for index in (0, 2)]
        biases = [np.array(weights[f"actor.{index}.bias"], dtype=np.float32) for index in (0, 2, 4)]
        last = np.array(weights["actor.4.weight"][0], dtype=np.float32)
        hidden = np.zeros((2, max(network.first, network.second)), dtype=np.float32)
        return cls(_PackedSlots(arrays[0], biases[0], arrays[1], biases[1], last, biases[2], hidden))

    def __call__(self, observation: Float32Array, legal: BoolArray) -> int:
        """Return the best legal slot."""
        return int(self.choose(observation[np.newaxis], legal[np.newaxis])[0])

    def choose(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray | None = None) -> IntArray:
        """Return the legal slots of the greatest value, the first of equal ones, or draw them by the softmax of values.

        ``observations`` has shape ``(E, W, K)``, ``legal`` has shape ``(E, W)``; every state has a legal slot.
        ``uniform`` has random numbers within 0 .. 1, shape ``(E,)``; None for the greatest values.
        """
        drawn = _NOT_DRAWN if uniform is None else uniform
        return np.asarray(_choose_actions(self.network, observations, legal, drawn))
