"""The compact network without torch: one value per slot, its weights shared over the slots, as a kernel."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numba import float32

from allocopt.arrays import Float32Array
from allocopt.kernels.arrays import tuple_type
from allocopt.kernels.compiled import helper
from learned.inference.networks import LEAK, CompactNetwork, check_weights

SLOPE = np.float32(LEAK)


class PackedSlots(NamedTuple):
    """The weights of a compact network's actor as the kernel takes them, each layer's transposed.

    Parameters
    ----------
    one, one_bias
        Shapes ``(K, first)`` and ``(first,)``.
    two, two_bias
        Shapes ``(first, second)`` and ``(second,)``.
    three, three_bias
        Shapes ``(second,)`` and ``(1,)``.
    hidden
        Working space, shape ``(2, max(first, second))``.
    """

    one: Float32Array
    one_bias: Float32Array
    two: Float32Array
    two_bias: Float32Array
    three: Float32Array
    three_bias: Float32Array
    hidden: Float32Array


PACKED_SLOTS = tuple_type(
    (
        *(float32[:, ::1], float32[::1], float32[:, ::1], float32[::1]),
        *(float32[::1], float32[::1], float32[:, ::1]),
    ),
    PackedSlots,
)
"""Numba type of `PackedSlots`."""


def network_of(weights: Mapping[str, Float32Array]) -> CompactNetwork:
    """Return the sizes of a network of these weights.

    Raises
    ------
    ValueError
        If they are not those of a compact network.
    """
    for name in ("actor.0.weight", "actor.2.weight"):
        if name not in weights or weights[name].ndim != 2:
            raise ValueError(f"parameter {name!r} is missing or no matrix")
    first, features = weights["actor.0.weight"].shape
    critic = weights["critic.0.weight"].shape[0] if "critic.0.weight" in weights else 0
    network = CompactNetwork(features, first, weights["actor.2.weight"].shape[0], critic)
    check_weights(network.shapes(), dict(weights))
    return network


def pack_slots(weights: Mapping[str, Float32Array]) -> PackedSlots:
    """Arrange the weights of a compact network's actor for the kernel; each caller needs its own working space.

    Raises
    ------
    ValueError
        If they are not those of a compact network.
    """
    network = network_of(weights)
    arrays = [np.ascontiguousarray(weights[f"actor.{index}.weight"].T, dtype=np.float32) for index in (0, 2)]
    biases = [np.array(weights[f"actor.{index}.bias"], dtype=np.float32) for index in (0, 2, 4)]
    last = np.array(weights["actor.4.weight"][0], dtype=np.float32)
    hidden = np.zeros((2, max(network.first, network.second)), dtype=np.float32)
    return PackedSlots(arrays[0], biases[0], arrays[1], biases[1], last, biases[2], hidden)


@helper(allocates=True, fastmath=True, error_model="numpy")
def slot_values(network: PackedSlots, features: Float32Array, n_slots: int, values: Float32Array) -> None:
    """Write the network's value of every one of the first slots.

    Parameters
    ----------
    network
        The weights; its working space is overwritten.
    features
        Shape ``(W, K)``.
    n_slots
        How many slots to value.
    values
        Where to, shape ``(W,)`` or longer than ``n_slots``.
    """
    n_features, n_first = network.one.shape
    n_second = network.two.shape[1]
    first, second = network.hidden[0], network.hidden[1]
    for slot in range(n_slots):
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
