"""Rules that place pods that share GPUs: fragmentation gradient descent, and best fit."""

from dataclasses import dataclass
from typing import ClassVar

from allocopt.gpu_sharing.kernels import place_by_best_fit, place_by_fgd
from allocopt.gpu_sharing.state import BestFitState, FgdState, SharedGpus


@dataclass(frozen=True, slots=True)
class Fgd:
    """Place a pod on the node whose free GPUs become least fragmented: FGD of Weng et al. (USENIX ATC 2023)."""

    name: ClassVar[str] = "fgd"
    kernel = staticmethod(place_by_fgd)

    def state(self, gpus: SharedGpus) -> FgdState:
        """Return the state that the kernel needs."""
        return FgdState(gpus)


@dataclass(frozen=True, slots=True)
class BestFit:
    """Place a pod on the node where the fewest cores and GPUs are left."""

    name: ClassVar[str] = "best-fit"
    kernel = staticmethod(place_by_best_fit)

    def state(self, gpus: SharedGpus) -> BestFitState:
        """Return the state that the kernel needs."""
        return BestFitState(gpus)
