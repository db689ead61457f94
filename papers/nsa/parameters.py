"""Table II of the NSA paper: numbers of parameters, for several readings of the printed layers."""

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import NamedTuple

from allocopt.learned.nsa.networks import CONVOLUTIONAL_FEATURES, NETWORKS, PRINTED_PARAMETERS, Q
from allocopt.reproduction import Records
from papers.artifact import Artifact, Number

FILTERS = {"cnn-1": (4, 4), "cnn-2": (8, 4), "cnn-3": (16, 8)}
"""Numbers of filters of the two printed convolutions."""
HIDDEN = 256
"""Outputs of the printed dense layer."""


class Layers(NamedTuple):
    """A reading of the printed layers: two convolutions, then dense layers."""

    features: int = CONVOLUTIONAL_FEATURES
    first_width: int = 10
    first_stride: int = 1
    second_width: int = 5
    second_stride: int = 2
    has_biases: bool = True

    def convolutions(self, network: str) -> int:
        """Return the number of parameters of the convolutions of a network."""
        one, two = FILTERS[network]
        weights = self.features * one * self.first_width + one * two * self.second_width
        return weights + self.has_biases * (one + two)

    def flat(self, network: str) -> int:
        """Return the number of outputs of the second convolution; 0 if its filters are wider than their input."""
        first = (Q - self.first_width) // self.first_stride + 1
        return FILTERS[network][1] * max(0, (first - self.second_width) // self.second_stride + 1)

    def dense(self, *sizes: int) -> int:
        """Return the number of parameters of dense layers of these sizes."""
        return sum(a * b + self.has_biases * b for a, b in pairwise(sizes))

    def count(self, network: str, *outputs: int) -> int:
        """Return the number of parameters of a network whose dense layers have these numbers of outputs."""
        return self.convolutions(network) + self.dense(self.flat(network), *outputs)


PRINTED = Layers()
COUNTS: dict[str, Callable[[str], int]] = {
    "as printed, and a layer of 100 outputs": lambda name: PRINTED.count(name, HIDDEN, Q),
    "as printed, and no more": lambda name: PRINTED.count(name, HIDDEN),
    "as printed, with 100 outputs in place of 256": lambda name: PRINTED.count(name, Q),
    "with five features": lambda name: Layers(5).count(name, HIDDEN, Q),
    "without biases": lambda name: Layers(has_biases=False).count(name, HIDDEN, Q),
    "the critic, one output": lambda name: PRINTED.count(name, HIDDEN, 1),
    "actor and critic": lambda name: PRINTED.count(name, HIDDEN, Q) + PRINTED.count(name, HIDDEN, 1),
}
"""Number of parameters of a convolutional network, by reading."""
DIFFERENCE = "cnn-2 less cnn-1"


def all_readings() -> Iterator[Layers]:
    """Yield readings with all numbers of features, widths and strides of the convolutions within some ranges."""
    for values in product((1, 2, 3, 4, 5, 6), range(1, 31), (1, 2, 3), range(1, 21), (1, 2, 3, 4), (True, False)):
        layers = Layers(*values)
        if all(layers.flat(name) for name in FILTERS):
            yield layers


def fitting_hidden(layers: Layers, network: str, n_outputs: int) -> float:
    """Return the number of hidden values for which a network has its printed count; only a whole number fits."""
    left = PRINTED_PARAMETERS[network] - layers.convolutions(network) - layers.has_biases * n_outputs
    return left / (layers.flat(network) + layers.has_biases + n_outputs)


def _searched() -> dict[str, int]:
    # Search for a size of the hidden layer that fits all three networks, as in the paper; after it come the outputs of
    # an actor, of a critic, or none.
    tried = fitting = 0
    for layers, n_outputs in product(all_readings(), (Q, 1, 0)):
        needed = {fitting_hidden(layers, name, n_outputs) for name in FILTERS}
        tried += 1
        fitting += len(needed) == 1 and needed.pop().is_integer()
    return {"tried": tried, "fitting": fitting}


def _numbers(records: Records) -> Iterator[Number]:
    for name, architecture in NETWORKS.items():
        yield Number(name, "as built", architecture.n_parameters, PRINTED_PARAMETERS[name])
    for reading, count in COUNTS.items():
        counts = {name: count(name) for name in FILTERS}
        for name, ours in counts.items():
            yield Number(name, reading, ours, PRINTED_PARAMETERS[name])
        printed = PRINTED_PARAMETERS["cnn-2"] - PRINTED_PARAMETERS["cnn-1"]
        yield Number(DIFFERENCE, reading, counts["cnn-2"] - counts["cnn-1"], printed)
    for found in records.values():
        yield Number("other convolutions and hidden layers", "readings", found["tried"])
        yield Number("other convolutions and hidden layers", "that give all three counts", found["fitting"])


TWO = Artifact(
    "nsa-table2",
    "Table II of the NSA paper: numbers of parameters by readings of the printed layers",
    lambda asked: ["search"],
    lambda asked, piece: _searched(),
    _numbers,
)
