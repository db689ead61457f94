"""Pod policy ``evolved-score``: a weighted sum of a few terms of a node, with evolved weights."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import Float32Array, FloatArray
from allocopt.gpu_sharing.kernels import place_by_weights
from allocopt.gpu_sharing.state import TERMS, SharedGpus, WeightedState
from allocopt.learned.weights import Card, check_shapes, find_weights, load_weights

NAME = "evolved-score"


def _numbers(weights: dict[str, Float32Array], card: Card) -> FloatArray:
    check_shapes({"weights": (len(TERMS),)}, weights)
    return weights["weights"].astype(np.float64)


@dataclass(frozen=True, slots=True)
class WeightedScore:
    """Choose the node with the highest weighted sum of `allocopt.gpu_sharing.state.TERMS`; weights ``(terms,)``."""

    name: ClassVar[str] = "weighted-score"
    kernel = staticmethod(place_by_weights)

    weights: FloatArray

    def state(self, gpus: SharedGpus) -> WeightedState:
        """Return the state that the kernel takes."""
        return WeightedState(gpus, self.weights)


@dataclass(frozen=True, slots=True)
class EvolvedScore:
    """Choose the node with the highest evolved score.

    Raises `UsageError` if there are no such weights, and `BadFileError` if they cannot be read.

    Parameters
    ----------
    weights
        Weights that come with the package: ``openb``; or a file that ``allocopt train evolved-score`` wrote.
    """

    name: ClassVar[str] = NAME
    kernel = staticmethod(place_by_weights)

    weights: str = "openb"
    score: WeightedScore = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", WeightedScore(load_weights(find_weights(NAME, self.weights), NAME, _numbers)))

    def state(self, gpus: SharedGpus) -> WeightedState:
        """Return the state that the kernel takes."""
        return self.score.state(gpus)
