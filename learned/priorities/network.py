"""The network that scores waiting jobs, and the vector of numbers that evolution optimizes.

Evolution works on features that are scaled to about -2 .. 2. `network_of` undoes the scaling in the weights, so that
the simulator takes features as `allocopt.simulator.scoring.FEATURES` defines them.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.simulator.scoring import BIAS, FEATURES, N_FEATURES, N_ROWS, OUTPUT

SCALES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "limit": (8.5, 2.0),
        "share": (-4.0, 2.0),
        "predicted": (7.5, 2.5),
        "wait": (7.5, 2.5),
        "wait_per_limit": (-1.0, 2.5),
        "wait_per_predicted": (0.0, 3.0),
        "limit_in_queue": (-0.5, 1.5),
        "share_in_queue": (-0.5, 1.5),
        "wait_in_queue": (0.5, 0.4),
        "used_of_limit": (0.5, 0.3),
        "fits": (0.3, 0.5),
        "wait_to_mean": (-0.5, 2.0),
        "starving": (0.0, 0.5),
        "work": (1.5, 2.0),
        "waiting": (2.5, 1.5),
        "longest_wait": (1.0, 2.0),
        "idle": (0.2, 0.25),
    }
)
"""Typical value of each feature, and its typical deviation from it, in the order of `FEATURES`."""

_CENTRES, _SPREADS = (np.array([SCALES[name][column] for name in FEATURES]) for column in range(2))


def first_parameters(features: Sequence[str], hidden: int, rng: np.random.Generator) -> FloatArray:
    """Return initial numbers for a network with these features and ``hidden`` hidden neurons; see `network_of`.

    The initial order is by wait over limit (UNICEP without sizes) or, without this feature, by wait. The weights of
    neurons are small and random.
    """
    first = "wait_per_limit" if "wait_per_limit" in features else "wait"
    linear = [-1.0 if name == first else 0.0 for name in features]
    return np.concatenate((linear, 0.1 * rng.standard_normal(hidden * (len(features) + 2))))


def parameters_of(network: FloatArray, features: Sequence[str], hidden: int) -> FloatArray:
    """Return the numbers of a network: the inverse of `network_of`.

    Raises ValueError if the network has another number of hidden neurons.
    """
    if network.shape != (N_ROWS, 1 + hidden):
        raise ValueError(f"the network has {network.shape[1] - 1} hidden neurons, must have {hidden}")
    used = [list(FEATURES).index(name) for name in features]
    weights = network[:N_FEATURES] * _SPREADS[:, None]
    biases = network[BIAS] + (_CENTRES / _SPREADS) @ weights
    neurons = np.column_stack((weights[used, 1:].T, biases[1:], network[OUTPUT, 1:]))
    return np.concatenate((network[OUTPUT, 0] * weights[used, 0], neurons.ravel()))


def network_of(parameters: FloatArray, features: Sequence[str], hidden: int) -> FloatArray:
    """Return the network with these numbers, shape ``(F + 2, H + 1)``; see `allocopt.simulator.scoring`.

    The numbers are the weights of the scaled features in use, then for each neuron its weights, its bias, and its
    weight in the score.
    """
    used, k = [list(FEATURES).index(name) for name in features], len(features)
    neurons = parameters[k:].reshape(hidden, k + 2)
    network = np.zeros((N_ROWS, 1 + hidden))
    network[used, 0], network[OUTPUT, 0] = parameters[:k], 1.0
    network[np.array([*used, BIAS, OUTPUT]), 1:] = neurons.T
    network[BIAS] -= (_CENTRES / _SPREADS) @ network[:N_FEATURES]
    network[:N_FEATURES] /= _SPREADS[:, None]
    return network
