"""The six networks of the NSA paper's Table II.

What the paper prints of a convolutional network ends with a dense layer of 256 values, which cannot be the last one: a
hyperbolic tangent and a dense layer of 100 values follow here, one per action, as at the end of the others. The
parameter counts printed for the convolutional networks (37,248, 42,097, 54,641) belong to no reading of the printed
layers that was found; those of the fully connected ones hold if a node has five features.
"""

from itertools import pairwise

from learned.networks.layers import Architecture, Convolution, Layer, Linear, Tanh

Q = 100
"""Nodes of the idle sequence that a state shows, and actions (Table I)."""

CONVOLUTIONAL_FEATURES, DENSE_FEATURES = 4, 5

PRINTED_PARAMETERS = {
    "fcn-1": 42_724, "fcn-2": 46_884, "fcn-3": 60_804, "cnn-1": 37_248, "cnn-2": 42_097, "cnn-3": 54_641,
}  # fmt: skip
"""Numbers of parameters as Table II prints them."""


def _fully_connected(name: str, first: int, *others: int) -> Architecture:
    """Make a network of dense layers of those sizes."""
    sizes = (DENSE_FEATURES * Q, first, *others)
    layers: list[Layer] = []
    for inputs, outputs in pairwise(sizes):
        layers += [Linear(inputs, outputs), Tanh()]
    return Architecture(name, (DENSE_FEATURES, Q), (*layers, Linear(sizes[-1], Q)))


def _convolutional(name: str, first: int, second: int) -> Architecture:
    """Make a network of two convolutions with so many filters, and two dense layers."""
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
