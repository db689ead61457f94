"""Feed-forward networks as lists of layers; needs neither torch nor weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Shape = tuple[int, int]
"""Channels and length of what flows between two layers."""


class Layer(Protocol):
    """A layer of a network."""

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""

    def output(self, shape: Shape) -> Shape:
        """Shape of its output for an input of that shape.

        Raises
        ------
        ValueError
            If it does not take such an input.
        """


@dataclass(frozen=True, slots=True)
class Convolution:
    """A one-dimensional convolution with bias and without padding.

    Parameters
    ----------
    inputs, outputs
        Channels.
    width, stride
        Of the filter.
    """

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
class Linear:
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
class Tanh:
    """The hyperbolic tangent of every value."""

    @property
    def n_parameters(self) -> int:
        """None."""
        return 0

    def output(self, shape: Shape) -> Shape:
        """Shape of its output; see `Layer.output`."""
        return shape


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network.

    Parameters
    ----------
    name
        Its name.
    input
        Channels (features) and length of its input.
    layers
        Its layers, first to last.

    Raises
    ------
    ValueError
        If two layers do not fit.
    """

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
    def n_outputs(self) -> int:
        """Number of outputs."""
        channels, length = self.shapes()[-1]
        return channels * length

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
