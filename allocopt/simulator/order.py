"""Queue orders as data: which waiting job stands before which, in a form that compiled schedulers can follow."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.traces.workload import Workload


class OrderKind(IntEnum):
    """How the values of a `QueueKeys` order the queue; ties go by submission, then id."""

    ARRIVAL = 0
    """By the time at which jobs join the queue; the values are not looked at."""
    FIXED = 1
    """The lowest value first."""
    AGEING = 2
    """The highest product of value and waiting time first."""
    FAIR_SHARE = 3
    """Jobs of the user who holds the lowest dominant share first; the values are not looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class QueueKeys:
    """What orders the jobs of one workload.

    Parameters
    ----------
    kind
        How the values are read.
    values
        One value per job, in the workload's order, shape ``(n,)``; not NaN.

    Raises
    ------
    UsageError
        If a value is NaN.
    """

    kind: OrderKind
    values: FloatArray

    def __post_init__(self) -> None:
        if np.isnan(self.values).any():
            raise UsageError(f"the queue key of job number {int(np.argmax(np.isnan(self.values)))} is not a number")


@runtime_checkable
class QueueOrder(Protocol):
    """A queue order, built in or plugged in."""

    @property
    def name(self) -> str:
        """Name under which it is asked for."""

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return what orders the jobs of a workload."""
