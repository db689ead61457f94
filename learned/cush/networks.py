"""The networks of CuSH (sections 3.2 and 3.3): sizes, shapes of the parameters and their number.

The job selector of the paper applies 16 filters of 2 x 2 to the image, then a rectifier, batch normalization and a
dense layer with an output for every choice. The compact one is that of DRAS, `CompactNetwork`: it
looks at the features of one choice at a time, with the same weights for all of them, so that neither the machine nor
the queue has a say in its size. The policy selector has 10 hidden neurons.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from allocopt.arrays import Float32Array
from allocopt.envs.cush.jobsets import Machine
from allocopt.envs.cush.observation import n_features
from allocopt.errors import UsageError
from allocopt.simulator.locality import Policy
from learned.inference.networks import CompactNetwork

JOBS, POLICIES = "jobs.", "policies."
"""What the names of both networks' parameters begin with where they are together."""
LEARNED, ORACLE = "learned", "oracle"
FIXED = (*(policy.label for policy in Policy), ORACLE)
"""What may stand in the place of the policy selector: one policy for all jobs, or the better one of each."""

FILTERS, SIDE = 16, 2
HIDDEN = 10
N_NUMBERS = 3
"""What a policy selector is told of a job beside its traits; see `Episodes.descriptions`."""


@dataclass(frozen=True, slots=True)
class ImageNetwork:
    """Sizes of the paper's job selector.

    Parameters
    ----------
    queue
        Slots Q.
    horizon
        Rows T of the image, at least 2.
    units
        Columns of the image: CPUs and GPUs of the machine.

    Raises
    ------
    UsageError
        If a filter has no place in the image.
    """

    queue: int
    horizon: int
    units: int

    def __post_init__(self) -> None:
        if self.horizon < SIDE:
            raise UsageError(f"the horizon is {self.horizon}, must be at least {SIDE} for filters of {SIDE} x {SIDE}")

    @property
    def positions(self) -> int:
        """Places of a filter in the image."""
        return (self.horizon - SIDE + 1) * (self.units - SIDE + 1)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what is learned, by name."""
        choices = self.queue + 1
        return {
            "filters.weight": (FILTERS, choices, SIDE, SIDE),
            "filters.bias": (FILTERS,),
            "norm.weight": (FILTERS,),
            "norm.bias": (FILTERS,),
            "output.weight": (choices, FILTERS * self.positions),
            "output.bias": (choices,),
        }


@dataclass(frozen=True, slots=True)
class PolicyNetwork:
    """Sizes of the policy selector for jobs of so many traits."""

    traits: int

    @property
    def inputs(self) -> int:
        """Numbers that describe a job."""
        return self.traits + N_NUMBERS

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what is learned, by name."""
        return {
            "0.weight": (HIDDEN, self.inputs),
            "0.bias": (HIDDEN,),
            "2.weight": (len(Policy), HIDDEN),
            "2.bias": (len(Policy),),
        }


def compact_network(traits: int) -> CompactNetwork:
    """Return the compact job selector for jobs of so many traits."""
    return CompactNetwork(n_features(traits), critic=0)


def image_network(machine: Machine, queue: int, horizon: int) -> ImageNetwork:
    """Return the paper's job selector for a machine."""
    return ImageNetwork(queue, horizon, machine.units)


def parts_of(weights: Mapping[str, Float32Array], prefix: str) -> dict[str, Float32Array]:
    """Return the parameters of one of the selectors."""
    return {name.removeprefix(prefix): values for name, values in weights.items() if name.startswith(prefix)}
