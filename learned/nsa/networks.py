"""The six networks of the NSA paper's Table II, as lists of layers, and their forward pass as a kernel, without torch.

The printed layers of a convolutional network end with a dense layer of 256 values, which cannot be the last one. Here a
hyperbolic tangent and a dense layer of 100 values follow, one per action, as in the other networks. None of the tried
readings of the printed layers explains the printed parameter counts of the convolutional networks. The counts of the
fully connected ones are right if a node has five features.

The kernel takes one input at a time, in single precision. Inner loops run along contiguous memory (the positions of a
convolution, the outputs of a dense layer) and sum eight products at once, so that the compiler can vectorize them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from allocopt.arrays import Float32Array, IntArray
from allocopt.kernels.arrays import IntMatrix, put
from allocopt.kernels.compiled import helper
from allocopt.learned.weights import check_shapes

Shape = tuple[int, int]  # Channels and length of the values between two layers
CONVOLUTION, DENSE, TANH = range(3)  # Kinds of layers
KIND, INPUTS, OUTPUTS, WIDTH, STRIDE, FIRST = range(6)  # Columns of `PackedNetwork.layers`


class _Layer(NamedTuple):
    """A convolution over channels without padding, a dense layer that flattens its input, or a hyperbolic tangent."""

    kind: int
    inputs: int = 0
    outputs: int = 0
    width: int = 1
    stride: int = 1

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the weights, outputs and inputs first; empty if the layer has none."""
        if self.kind == TANH:
            return ()
        return (self.outputs, self.inputs) if self.kind == DENSE else (self.outputs, self.inputs, self.width)

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return prod(self.weight_shape) + self.outputs if self.weight_shape else 0

    def output(self, shape: Shape) -> Shape:
        """Return the shape of the output for an input of this shape; raises ValueError if the layer cannot take it."""
        channels, length = shape
        if self.kind == TANH:
            return shape
        if self.kind == DENSE and channels * length == self.inputs:
            return 1, self.outputs
        if self.kind == CONVOLUTION and channels == self.inputs and length >= self.width:
            return self.outputs, (length - self.width) // self.stride + 1
        raise ValueError(f"{self} does not take an input of shape {shape}")


@dataclass(frozen=True, slots=True)
class Architecture:
    """A feed-forward network; raises ValueError if two successive layers do not fit."""

    input: Shape
    layers: tuple[_Layer, ...]

    def __post_init__(self) -> None:
        self.shapes()

    def shapes(self) -> list[Shape]:
        """Return the shapes between the layers, the input first and the output last."""
        return list(accumulate(self.layers, lambda shape, layer: layer.output(shape), initial=self.input))

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return sum(layer.n_parameters for layer in self.layers)

    def with_outputs(self, n: int) -> "Architecture":
        """Return the same network with another number of outputs of its last, dense layer."""
        return Architecture(self.input, (*self.layers[:-1], self.layers[-1]._replace(outputs=n)))

    def pack(self, weights: Mapping[str, Float32Array]) -> "PackedNetwork":
        """Arrange weights for the kernel; raises ValueError if a parameter is missing or has another shape."""
        rows, parts, first = [], [], 0
        for index, layer in enumerate(self.layers):
            rows.append([*layer, first])
            if layer.weight_shape:
                # Torch's `Sequential` uses these names
                weight, bias = f"{index}.weight", f"{index}.bias"
                check_shapes({weight: layer.weight_shape, bias: (layer.outputs,)}, weights)
                parts += [(weights[weight].T if layer.kind == DENSE else weights[weight]).ravel(), weights[bias]]
                first += layer.n_parameters
        return PackedNetwork(np.array(rows, dtype=np.int64), np.concatenate(parts, dtype=np.float32))

    def buffers(self) -> "Buffers":
        """Allocate the scratch space of the kernel."""
        shapes = self.shapes()
        most = max(channels * length for channels, length in shapes)
        patches = [
            layer.inputs * layer.width * length
            for layer, (_, length) in zip(self.layers, shapes[1:], strict=True)
            if layer.kind == CONVOLUTION
        ]
        return Buffers(*(np.zeros(size, dtype=np.float32) for size in (most, most, max(patches, default=0))))


Q = 100  # Number of nodes of the idle sequence in a state, and of actions (Table I)
CONVOLUTIONAL_FEATURES, DENSE_FEATURES = 4, 5
# Numbers of parameters as Table II prints them
PRINTED_PARAMETERS = {
    "fcn-1": 42_724, "fcn-2": 46_884, "fcn-3": 60_804, "cnn-1": 37_248, "cnn-2": 42_097, "cnn-3": 54_641,
}  # fmt: skip


def _fully_connected(*hidden: int) -> Architecture:
    layers: list[_Layer] = []
    for inputs, outputs in pairwise((DENSE_FEATURES * Q, *hidden, Q)):
        layers += [_Layer(DENSE, inputs, outputs), _Layer(TANH)]
    return Architecture((DENSE_FEATURES, Q), tuple(layers[:-1]))


def _convolutional(first: int, second: int) -> Architecture:
    one = _Layer(CONVOLUTION, CONVOLUTIONAL_FEATURES, first, 10, 1)
    two = _Layer(CONVOLUTION, first, second, 5, 2)
    channels, length = two.output(one.output((CONVOLUTIONAL_FEATURES, Q)))
    dense = (_Layer(DENSE, channels * length, 256), _Layer(TANH), _Layer(DENSE, 256, Q))
    return Architecture((CONVOLUTIONAL_FEATURES, Q), (one, _Layer(TANH), two, *dense))


NETWORKS = {
    "fcn-1": _fully_connected(64, 64),
    "fcn-2": _fully_connected(64, 64, 64),
    "fcn-3": _fully_connected(96, 64),
    "cnn-1": _convolutional(4, 4),
    "cnn-2": _convolutional(8, 4),
    "cnn-3": _convolutional(16, 8),
}


class PackedNetwork(NamedTuple):
    """Layers and weights of a network."""

    layers: IntMatrix  # A row per layer: the fields of `_Layer`, and the start of its weights; shape ``(n, 6)``
    # Weights and then biases of each layer, one layer after the other; weights of dense layers are transposed, so that
    # all outputs of an input are contiguous
    weights: Float32Array


class Buffers(NamedTuple):
    """Scratch space of the forward kernel: two arrays for the outputs of layers, and one for the inputs of filters."""

    one: Float32Array
    other: Float32Array
    patches: Float32Array


_SATURATED = np.float32(6.4)  # Beyond this value the hyperbolic tangent is 1 to within 6e-6


@helper(allocates=True, fastmath=True, error_model="numpy")
def _rational_tanh(x: np.float32) -> np.float32:
    # Hyperbolic tangent, by the ninth convergent of Lambert's continued fraction; within 2e-5 everywhere.
    x = np.float32(min(max(x, -_SATURATED), _SATURATED))
    s = x * x
    one = np.float32(1.0)
    above = x * (
        np.float32(34459425.0)
        + s * (np.float32(4729725.0) + s * (np.float32(135135.0) + s * (np.float32(990.0) + s * one)))
    )
    below = np.float32(34459425.0) + s * (
        np.float32(16216200.0) + s * (np.float32(945945.0) + s * (np.float32(13860.0) + s * np.float32(45.0)))
    )
    return np.float32(above / below)


@helper(allocates=True, fastmath=True, error_model="numpy")
def _add_product(weights: Float32Array, inputs: Float32Array, outputs: Float32Array) -> None:
    # Add ``inputs @ weights``; the weights of an input are contiguous. With eight inputs at once, outputs are read and
    # written an eighth as often, and vector instructions are well used.
    n, m = inputs.size, outputs.size
    whole = n - n % 8
    for i in range(0, whole, 8):
        a, b, c, d = inputs[i], inputs[i + 1], inputs[i + 2], inputs[i + 3]
        e, f, g, h = inputs[i + 4], inputs[i + 5], inputs[i + 6], inputs[i + 7]
        rows = weights[i * m : (i + 8) * m]
        for o in range(m):
            outputs[o] += (a * rows[o] + b * rows[m + o] + c * rows[2 * m + o] + d * rows[3 * m + o]) + (
                e * rows[4 * m + o] + f * rows[5 * m + o] + g * rows[6 * m + o] + h * rows[7 * m + o]
            )
    for i in range(whole, n):
        row = weights[i * m : (i + 1) * m]
        for o in range(m):
            outputs[o] += inputs[i] * row[o]


@helper(allocates=True)
def _apply_convolution(
    layer: IntArray, weights: Float32Array, inputs: Float32Array, patches: Float32Array, outputs: Float32Array
) -> int:
    # Apply each filter as a product of its weights with the inputs of its taps. Returns the size of the output.
    n_filters, n_channels = int(layer[OUTPUTS]), int(layer[INPUTS])
    width, stride = int(layer[WIDTH]), int(layer[STRIDE])
    taps, length = n_channels * width, inputs.size // n_channels
    n = (length - width) // stride + 1
    for tap in range(taps):
        source, target = inputs[tap // width * length + tap % width :], patches[tap * n : (tap + 1) * n]
        if stride == 1:
            put(source[:n], target)
        else:
            for i in range(n):
                target[i] = source[i * stride]
    for index in range(n_filters):
        channel = outputs[index * n : (index + 1) * n]
        channel[:] = weights[n_filters * taps + index]
        _add_product(patches[: taps * n], weights[index * taps : (index + 1) * taps], channel)
    return n * n_filters


@helper(allocates=True, fastmath=True, error_model="numpy")
def forward(network: PackedNetwork, buffers: Buffers, inputs: Float32Array) -> Float32Array:
    """Return the outputs of a network for one input, in a buffer that the next call overwrites."""
    source, target, size = inputs, buffers.one, inputs.size
    spare = buffers.other
    for index in range(network.layers.shape[0]):
        layer = network.layers[index]
        weights = network.weights[layer[FIRST] :]
        if layer[KIND] == CONVOLUTION:
            size = _apply_convolution(layer, weights, source[:size], buffers.patches, target)
        elif layer[KIND] == DENSE:
            n, m = layer[INPUTS], layer[OUTPUTS]
            put(weights[n * m : (n + 1) * m], target)
            _add_product(weights[: n * m], source[:size], target[:m])
            size = m
        else:
            for i in range(size):
                source[i] = _rational_tanh(source[i])
            continue
        source, target, spare = target, spare, target
    return source[:size]
