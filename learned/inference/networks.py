"""The networks of DRAS: the paper's (Table 3), and a compact one of the same shape for small machines.

The paper's network looks at rows of two numbers, two rows per job of the window and one per node. A convolution with
one 1x2 filter makes one value of each row; two dense layers without bias and with leaky rectifiers follow, and an
output layer with bias. The compact network applies a convolution with 1xK filters and two dense layers to each slot's
K features; its weights are shared over the slots, so that neither window nor machine has a say in its size. Its critic
is another small network, over the mean and the greatest value of every feature.
"""

from dataclasses import dataclass

from allocopt.arrays import Float32Array

LEAK = 0.01
"""Slope of the leaky rectifier below zero, torch's own."""

ROWS_PER_JOB = 2


@dataclass(frozen=True, slots=True)
class PaperNetwork:
    """Sizes of the paper's network.

    Parameters
    ----------
    jobs
        Jobs that one input shows: those of the window, or 1 for ``dras-dql``.
    nodes
        Nodes of the machine.
    first, second
        Neurons of the fully connected layers.
    outputs
        Values of the output layer.
    """

    jobs: int
    nodes: int
    first: int
    second: int
    outputs: int

    @property
    def rows(self) -> int:
        """Rows of the input, and neurons of the convolutional layer."""
        return ROWS_PER_JOB * self.jobs + self.nodes

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        filter_and_bias = 3
        dense = self.rows * self.first + self.first * self.second + self.second * self.outputs
        return filter_and_bias + dense + self.outputs

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters by name."""
        return {
            "filter.weight": (1, 2),
            "filter.bias": (1,),
            "first.weight": (self.first, self.rows),
            "second.weight": (self.second, self.first),
            "output.weight": (self.outputs, self.second),
            "output.bias": (self.outputs,),
        }


THETA_NODES, THETA_LAYERS = 4360, (4000, 1000)
CORI_NODES, CORI_LAYERS = 12_076, (10_000, 4000)
WINDOW = 50
"""Jobs of the paper's window."""


def paper_network(agent: str, nodes: int, layers: tuple[int, int], window: int = WINDOW) -> PaperNetwork:
    """Return the network of an agent: ``dql``, ``pg``, ``a2c`` or ``ppo``.

    ``a2c`` and ``ppo`` have one output more than the window: actor and critic share all layers but the last.
    """
    if agent == "dql":
        return PaperNetwork(1, nodes, *layers, 1)
    return PaperNetwork(window, nodes, *layers, window + (agent in ("a2c", "ppo")))


@dataclass(frozen=True, slots=True)
class CompactNetwork:
    """Sizes of the compact network.

    Parameters
    ----------
    features
        Features K of a slot.
    first, second
        Neurons of the two hidden layers, per slot.
    critic
        Neurons of the critic's hidden layer; 0 where there is no critic.
    """

    features: int
    first: int = 32
    second: int = 16
    critic: int = 32

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters by name."""
        shapes: dict[str, tuple[int, ...]] = {
            "actor.0.weight": (self.first, self.features),
            "actor.0.bias": (self.first,),
            "actor.2.weight": (self.second, self.first),
            "actor.2.bias": (self.second,),
            "actor.4.weight": (1, self.second),
            "actor.4.bias": (1,),
        }
        if self.critic:
            shapes |= {
                "critic.0.weight": (self.critic, 2 * self.features),
                "critic.0.bias": (self.critic,),
                "critic.2.weight": (1, self.critic),
                "critic.2.bias": (1,),
            }
        return shapes

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return sum(_product(shape) for shape in self.shapes().values())


def check_weights(shapes: dict[str, tuple[int, ...]], weights: dict[str, Float32Array]) -> None:
    """Raise ValueError unless weights have these names and shapes."""
    for name, shape in shapes.items():
        if name not in weights:
            raise ValueError(f"parameter {name!r} is missing")
        if weights[name].shape != shape:
            raise ValueError(f"parameter {name!r} has shape {weights[name].shape}, must be {shape}")


def _product(shape: tuple[int, ...]) -> int:
    """Return the number of values of an array."""
    product = 1
    for length in shape:
        product *= length
    return product
