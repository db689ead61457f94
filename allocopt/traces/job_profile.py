"""Jobs as sequences of stages, with demands on the cores, the memory and the file system of an allocation."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import InvalidProblemError

# How far from 1 the shares of a profile may sum.
_SUM_TOLERANCE = 1e-6


class StageKind(StrEnum):
    """Whether a stage uses one core or all (ASAX paper, section 3.1)."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a job."""

    share: float  # share of the job's remaining run time without other jobs, in (0, 1]
    cpu: float  # share of the job's cores that it keeps busy without other jobs, in (0, 1]
    memory: float = 0.0  # share that it occupies of the memory belonging to the job's cores, in [0, 1]
    # Share of the time in which it reads, writes or exchanges messages without other jobs, in [0, 1].
    io: float = 0.0
    kind: StageKind = StageKind.PARALLEL


@dataclass(frozen=True, slots=True)
class ProfiledJob:
    """A running or waiting job whose demands are known; it has, or asks for, ``cores``."""

    id: str
    cores: int
    profile: tuple[Stage, ...]  # the remaining stages, in order; their shares sum to 1
    remaining_s: float  # seconds that it still runs without other jobs; the run time of a waiting job
    walltime_s: float  # seconds to its limit: from now if it runs, from its start if it waits
    # Seconds that a guest would still wait if it is not hosted; the objective ``response`` needs this.
    wait_s: float | None = None

    @property
    def happiness(self) -> float:
        """Time left divided by time needed; at least 1 if the job ends within its limit (ASAX paper, Eq. 1; errata)."""
        return self.walltime_s / self.remaining_s

    def column(self, name: str) -> FloatArray:
        """Return ``share``, ``cpu``, ``memory`` or ``io`` of every stage, shape ``(stages,)``."""
        return np.array([getattr(stage, name) for stage in self.profile], dtype=np.float64)

    def mean(self, name: str) -> float:
        """Return the mean of ``cpu``, ``memory`` or ``io`` over the job's remaining time."""
        return float(self.column("share") @ self.column(name))

    def peak_memory(self) -> float:
        """Return the largest share of memory that a stage occupies."""
        return float(max(stage.memory for stage in self.profile))


def check_profile(place: str, profile: tuple[Stage, ...]) -> None:
    """Raise `InvalidProblemError` if there is no stage, a number is out of range, or the shares do not sum to 1."""
    if not profile:
        raise InvalidProblemError(place, "is empty, must hold at least one stage")
    for index, stage in enumerate(profile):
        for name, positive in (("share", True), ("cpu", True), ("memory", False), ("io", False)):
            value = getattr(stage, name)
            if not 0 <= value <= 1 or (positive and value == 0):
                least = "above 0" if positive else "from 0"
                raise InvalidProblemError(f"{place}[{index}].{name}", f"is {value}, must be a share {least} to 1")
        if stage.kind not in list(StageKind):
            fault = f"is {stage.kind!r}, must be one of {', '.join(StageKind)}"
            raise InvalidProblemError(f"{place}[{index}].kind", fault)
    total = sum(stage.share for stage in profile)
    if abs(total - 1) > _SUM_TOLERANCE:
        raise InvalidProblemError(place, f"the shares sum to {total:g}, must sum to 1")
