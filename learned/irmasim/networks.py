"""The networks of agents that select policies (IRMaSim, Figure 5): dense layers; needs no torch."""

from collections.abc import Mapping

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, IntArray
from learned.networks.layers import Architecture, Linear, Tanh

HIDDEN = 32
"""Neurons of the hidden layer."""
NAME = "dense"


def network(inputs: int, outputs: int) -> Architecture:
    """Return the network of an actor, or, with one output, of a critic."""
    return Architecture(NAME, (1, inputs), (Linear(inputs, HIDDEN), Tanh(), Linear(HIDDEN, outputs)))


def preferences(weights: Mapping[str, Float32Array], seen: Float32Array) -> Float32Array:
    """Apply an actor.

    Parameters
    ----------
    weights
        Its parameters by name.
    seen
        Observations, shape ``(E, size)``.

    Returns
    -------
    Float32Array
        A logit for each policy, shape ``(E, A)``.
    """
    hidden = np.tanh(seen @ weights["0.weight"].T + weights["0.bias"])
    return np.asarray(hidden @ weights["2.weight"].T + weights["2.bias"], dtype=np.float32)


def most_preferred(weights: Mapping[str, Float32Array], seen: Float32Array, legal: BoolArray) -> IntArray:
    """Legal policy of the greatest logit, the first of equals, shape ``(E,)``."""
    return np.asarray(np.where(legal, preferences(weights, seen), -np.inf).argmax(axis=1))
