"""Letting the compact network act in many episodes at once, compiled: drawing actions, or taking the best."""

import numpy as np
from numba import boolean, float32, float64, int64, void

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.kernels.compiled import helper, kernel
from learned.inference.slots import PACKED_SLOTS, PackedSlots, slot_values

_ARRAYS = (float32[:, :, ::1], boolean[:, ::1])


@helper(allocates=True, error_model="numpy")
def best_slot(legal: BoolArray, values: Float32Array, end: int) -> int:
    """Legal slot of the greatest value, the first of equals."""
    best = -1
    for slot in range(end):
        if legal[slot] and (best < 0 or values[slot] > values[best]):
            best = slot
    return best


@helper(allocates=True, error_model="numpy")
def score(network: PackedSlots, state: Float32Array, legal: BoolArray, values: Float32Array) -> int:
    """Write the values of all slots up to the last legal one; return the number of these."""
    end = legal.size
    while end > 0 and not legal[end - 1]:
        end -= 1
    slot_values(network, state, end, values)
    return int(end)


@kernel(void(PACKED_SLOTS, *_ARRAYS, float64[::1], float32[::1], int64[::1]), allocates=True, error_model="numpy")
def draw_actions(
    network: PackedSlots,
    states: Float32Array,
    legal: BoolArray,
    uniform: FloatArray,
    values: Float32Array,
    actions: IntArray,
) -> None:
    """Draw an action of every episode by the softmax of the network's values over the legal slots.

    Parameters
    ----------
    network
        The weights.
    states, legal
        Shapes ``(E, W, K)`` and ``(E, W)``; in every row at least one slot is legal.
    uniform
        Random numbers within 0 .. 1, shape ``(E,)``.
    values
        Working space, shape ``(W,)``.
    actions
        Where to, shape ``(E,)``.
    """
    for e in range(actions.size):
        end = score(network, states[e], legal[e], values)
        most = values[best_slot(legal[e], values, end)]
        total = 0.0
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


@kernel(void(PACKED_SLOTS, *_ARRAYS, float32[::1], int64[::1]), allocates=True, error_model="numpy")
def best_actions(
    network: PackedSlots, states: Float32Array, legal: BoolArray, values: Float32Array, actions: IntArray
) -> None:
    """Take the legal slot of the greatest value in every episode, the first of equals; see `draw_actions`."""
    for e in range(actions.size):
        end = score(network, states[e], legal[e], values)
        actions[e] = best_slot(legal[e], values, end)
