"""A trained network as the two arrays that the forward kernel takes."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from allocopt.arrays import Float32Array, IntArray
from learned.networks.layers import Architecture, Convolution, Linear, parameter_names

CONVOLUTION, DENSE, TANH = 0, 1, 2
KIND, INPUTS, OUTPUTS, WIDTH, STRIDE, FIRST, N_COLUMNS = range(7)


class PackedNetwork(NamedTuple):
    """Layers and weights of a network.

    Parameters
    ----------
    layers
        One row a layer: kind, inputs, outputs, filter width, stride, where its weights begin; shape ``(n, 6)``.
        Inputs and outputs are channels of a convolution, values of a dense layer.
    weights
        Of all layers one after the other; a dense layer's are transposed, all outputs of an input beside each other,
        and every layer's weights are followed by its biases.
    """

    layers: IntArray
    weights: Float32Array


class Buffers(NamedTuple):
    """Working space of the forward kernel: two arrays that take turns, and one for what filters read."""

    one: Float32Array
    other: Float32Array
    patches: Float32Array


def pack(architecture: Architecture, weights: Mapping[str, Float32Array]) -> PackedNetwork:
    """Arrange a network for the kernel.

    Raises
    ------
    ValueError
        If a parameter is missing, or has another shape than its layer.
    """
    rows, parts, first = [], [], 0
    names = iter(parameter_names(architecture.layers))
    for layer in architecture.layers:
        row = [TANH, 0, 0, 0, 0, first]
        if isinstance(layer, Convolution | Linear):
            weight_name, bias_name = next(names)
            weight, bias = _array(weights, weight_name), _array(weights, bias_name)
            _check_shape(layer, weight, bias, weight_name)
            dense = isinstance(layer, Linear)
            parts += [(weight.T if dense else weight).ravel(), bias]
            row[:3] = [DENSE if dense else CONVOLUTION, layer.inputs, layer.outputs]
            row[3:5] = [1, 1] if isinstance(layer, Linear) else [layer.width, layer.stride]
            first += layer.n_parameters
        rows.append(row)
    return PackedNetwork(np.array(rows, dtype=np.int64), np.concatenate(parts, dtype=np.float32))


def buffers_for(architecture: Architecture) -> Buffers:
    """Allocate the working space of a network."""
    shapes = architecture.shapes()
    most = max(channels * length for channels, length in shapes)
    patches = [
        layer.inputs * layer.width * length
        for layer, (_, length) in zip(architecture.layers, shapes[1:], strict=True)
        if isinstance(layer, Convolution)
    ]
    return Buffers(*(np.zeros(size, dtype=np.float32) for size in (most, most, max(patches, default=0))))


def _array(weights: Mapping[str, Float32Array], name: str) -> Float32Array:
    """Return a parameter."""
    if name not in weights:
        raise ValueError(f"parameter {name!r} is missing")
    return weights[name]


def _check_shape(layer: Convolution | Linear, weight: Float32Array, bias: Float32Array, name: str) -> None:
    """Raise ValueError unless the parameters are those of the layer."""
    expected = (layer.outputs, layer.inputs) + ((layer.width,) if isinstance(layer, Convolution) else ())
    if weight.shape != expected:
        raise ValueError(f"parameter {name!r} has shape {weight.shape}, must be {expected}")
    if bias.shape != (layer.outputs,):
        raise ValueError(f"the bias beside parameter {name!r} has shape {bias.shape}, must be {(layer.outputs,)}")
