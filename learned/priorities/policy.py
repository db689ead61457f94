"""Queue order ``evolved-priority``: sorts waiting jobs by the score of an evolved network, the lowest first."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import Float32Array, FloatArray
from allocopt.learned.weights import Card, check_shapes, find_weights, load_weights
from allocopt.simulator.rules import QueueKeys
from allocopt.simulator.scoring import N_ROWS
from allocopt.traces.workload import Workload

NAME = "evolved-priority"


def _network(weights: dict[str, Float32Array], card: Card) -> FloatArray:
    check_shapes({"network": (N_ROWS, 1 + int(card.settings["hidden"]))}, weights)
    return weights["network"].astype(np.float64)


@dataclass(frozen=True, slots=True)
class EvolvedPriority:
    """Order jobs by features of jobs, of their users and of the queue; see docs/simulator.md, section Scores.

    Raises `UsageError` if there are no such weights, and `BadFileError` if they cannot be read.

    Parameters
    ----------
    weights
        Shipped weights, named after their goal: ``balanced``, ``slowdown`` or ``fair``; or a file that ``allocopt train
        evolved-priority`` wrote.
    """

    weights: str = "balanced"
    network: FloatArray = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = NAME

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", load_weights(find_weights(NAME, self.weights), NAME, _network))

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the network; see `allocopt.simulator.rules.QueueOrder.keys`."""
        return QueueKeys.by_score(len(workload), self.network)
