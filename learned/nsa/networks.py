"""The six networks of the NSA paper's Table II, as lists of layers; needs neither torch nor weights.

What the paper prints of a convolutional network ends with a dense layer of 256 values, which cannot be the last one: a
hyperbolic tangent and a dense layer of 100 values follow here, one per action, as at the end of the others. The
parameter counts printed for the convolutional networks (37,248, 42,097, 54,641) belong to no reading of the printed
layers that was found; those of the fully connected ones hold if a node has five features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Shape = tuple[int, int]
"""Channels and length of what flows between two layers."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a network, without parameters of its own."""

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return 0

    def output(self, shape: Shape) -> Shape:
        """Shape of its output for an input of that shape; raises ValueError if it does not take it."""
        return shape


@dataclass(frozen=True, slots=True)
class Convolution(Layer):
    """A one-dimensional convolution of so many channels, with bias and without padding."""

    inputs: int
    outputs: int
    width: int
    stride: int

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return self.outputs * (self.inputs * self.width + 1)

    def output(self, shape: Shape) -> Shape:
        """Shape of its output; see `Layer.output`."""
        channels, length = shape
        if channels != self.inputs or length < self.width:
            raise ValueError(f"{self} does not take an input of shape {shape}")
        return self.outputs, (length - self.width) // self.stride + 1


@dataclass(frozen=True, slots=True)
class Linear(Layer):
    """A dense layer with bias; it takes an input of any shape, flattened channel by channel."""

    inputs: int
    outputs: int

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return self.outputs * (self.inputs + 1)

    def output(self, shape: Shape) -> Shape:
        """Shape of its output; see `Layer.output`."""
        if shape[0] * shape[1] != self.inputs:
            raise ValueError(f"{self} does not take an input of shape {shape}")
        return 1, self.outputs


@dataclass(frozen=True, slots=True)
class Tanh(Layer):
    """The hyperbolic tangent of every value."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A feed-forward network; raises ValueError if two of its layers do not fit."""

    name: str
    input: Shape
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        self.shapes()

    def shapes(self) -> list[Shape]:
        """Shapes between the layers, the input first and the output last."""
        shapes = [self.input]
        for layer in self.layers:
            shapes.append(layer.output(shapes[-1]))
        return shapes

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return sum(layer.n_parameters for layer in self.layers)

    def with_outputs(self, n: int) -> "Architecture":
        """Return the same network with another number of outputs of its last, dense layer."""
        last = self.layers[-1]
        if not isinstance(last, Linear):
            raise ValueError(f"the last layer of {self.name} is {last}, must be dense")
        return Architecture(self.name, self.input, (*self.layers[:-1], Linear(last.inputs, n)))


def parameter_names(layers: Sequence[Layer]) -> list[tuple[str, str]]:
    """Names of weight and bias of every layer that has them, as torch's ``Sequential`` counts layers."""
    return [(f"{index}.weight", f"{index}.bias") for index, layer in enumerate(layers) if layer.n_parameters]


Q = 100
"""Nodes of the idle sequence that a state shows, and actions (Table I)."""
CONVOLUTIONAL_FEATURES, DENSE_FEATURES = 4, 5
PRINTED_PARAMETERS = {
    "fcn-1": 42_724, "fcn-2": 46_884, "fcn-3": 60_804, "cnn-1": 37_248, "cnn-2": 42_097, "cnn-3": 54_641,
}  # fmt: skip
"""Numbers of parameters as Table II prints them."""


def _fully_connected(name: str, first: int, *others: int) -> Architecture:
    sizes = (DENSE_FEATURES * Q, first, *others)
    layers: list[Layer] = []
    for inputs, outputs in pairwise(sizes):
        layers += [Linear(inputs, outputs), Tanh()]
    return Architecture(name, (DENSE_FEATURES, Q), (*layers, Linear(sizes[-1], Q)))


def _convolutional(name: str, first: int, second: int) -> Architecture:
    one, two = Convolution(CONVOLUTIONAL_FEATURES, first, 10, 1), Convolution(first, second, 5, 2)
    channels, length = two.output(one.output((CONVOLUTIONAL_FEATURES, Q)))
    dense = (Linear(channels * length, 256), Tanh(), Linear(256, Q))
    return Architecture(name, (CONVOLUTIONAL_FEATURES, Q), (one, Tanh(), two, *dense))


NETWORKS = {
    network.name: network
    for network in (
        _fully_connected("fcn-1", 64, 64),
        _fully_connected("fcn-2", 64, 64, 64),
        _fully_connected("fcn-3", 96, 64),
        _convolutional("cnn-1", 4, 4),
        _convolutional("cnn-2", 8, 4),
        _convolutional("cnn-3", 16, 8),
    )
}
