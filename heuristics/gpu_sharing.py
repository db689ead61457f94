"""Policies for pods that share GPUs by rules: fragmentation gradient descent, and best fit."""

from dataclasses import dataclass
from typing import ClassVar

from allocopt.gpu_sharing.kernels import place_by_best_fit, place_by_fgd
from allocopt.gpu_sharing.state import BestFitState, FgdState, SharedGpus


@dataclass(frozen=True, slots=True)
class Fgd:
    """On the node whose free GPUs become least fragmented: FGD of Weng et al. (USENIX ATC 2023)."""

    name: ClassVar[str] = "fgd"
    kernel = staticmethod(place_by_fgd)

    def state(self, gpus: SharedGpus) -> FgdState:
        """Return the state that it takes."""
        return FgdState(gpus)


@dataclass(frozen=True, slots=True)
class BestFit:
    """On the node on which the least cores and GPUs are left."""

    name: ClassVar[str] = "best-fit"
    kernel = staticmethod(place_by_best_fit)

    def state(self, gpus: SharedGpus) -> BestFitState:
        """Return the state that it takes."""
        return BestFitState(gpus)
