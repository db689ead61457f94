"""Rules of a simulation with their defaults, and queue orders as data for kernels."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.traces.workload import Workload


class EventOrder(IntEnum):
    """Order in which simultaneous events are processed."""

    BATCHED = 0
    """All ends, then all submissions, then one scheduling pass."""
    SEQUENTIAL = 1
    """One event at a time, submissions before ends, a pass after each (as in pyss and Gaussier et al., SC'15)."""


class Backfill(IntEnum):
    """Which jobs may start although a job before them in the queue cannot."""

    NONE = 0
    """No job: the first job that does not fit blocks all others."""
    FIRST_FIT = 1
    """All jobs that fit; the head of the queue has no reservation."""
    EASY = 2
    """Jobs that do not delay the head beyond its reservation, the time given by the estimates (Lifka 1995)."""
    CONSERVATIVE = 3
    """Jobs that delay no reservation; every job has one from its submission on."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of a simulation that do not depend on the scheduler. Raises `UsageError` if ``event_order`` is invalid.

    Parameters
    ----------
    kill_at_limit
        Whether a job ends at its estimate at the latest. If not, it runs as long as recorded, and an expected end that
        has passed counts as now.
    dependencies
        Whether a job with a preceding job is submitted only when that job has ended and the think time is over, and
        not before its own submit time.
    """

    event_order: EventOrder = EventOrder.BATCHED
    kill_at_limit: bool = True
    dependencies: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.event_order, EventOrder):
            choices = ", ".join(f"EventOrder.{kind.name}" for kind in EventOrder)
            raise UsageError(f"event_order is {self.event_order!r}, must be one of {choices}")


class OrderKind(IntEnum):
    """How the values of a `QueueKeys` order the queue; ties are broken by submission, then id."""

    ARRIVAL = 0
    """By the time at which jobs join the queue; values are ignored."""
    FIXED = 1
    """The lowest value first."""
    AGEING = 2
    """The highest product of value and waiting time first."""
    FAIR_SHARE = 3
    """Jobs of the user with the lowest dominant share first; values are ignored."""
    SCORED = 4
    """The lowest score of a network first; values are ignored."""


@dataclass(frozen=True, slots=True, eq=False)
class QueueKeys:
    """Sorting keys of a workload: one value per job, shape ``(n,)``.

    Raises `UsageError` if a value is NaN, the network has a number that is not finite, the kind is ``SCORED`` without a
    network, or a network is given for another kind.

    Parameters
    ----------
    kind
        Meaning of the values.
    values
        The value of each job.
    network
        The weights of a score, of shape ``(F + 2, H + 1)`` with `F` features and `H` hidden neurons; see
        `allocopt.simulator.scoring`. None for other kinds.
    """

    kind: OrderKind
    values: FloatArray
    network: FloatArray | None = None

    def __post_init__(self) -> None:
        if np.isnan(self.values).any():
            raise UsageError(f"the queue key of job number {int(np.argmax(np.isnan(self.values)))} is not a number")
        if (self.network is not None) != (self.kind is OrderKind.SCORED):
            raise UsageError("queue keys must have a network if their kind is SCORED, and only then")
        if self.network is not None and not np.isfinite(self.network).all():
            raise UsageError("a weight of the network that scores jobs is not a finite number")

    @classmethod
    def by_arrival(cls, jobs: int) -> "QueueKeys":
        """Return the keys of ``jobs`` jobs that are ordered by the time at which they join the queue."""
        return cls(OrderKind.ARRIVAL, np.zeros(jobs))

    @classmethod
    def by_score(cls, jobs: int, network: FloatArray) -> "QueueKeys":
        """Return the keys of ``jobs`` jobs that are ordered by their scores, the lowest first."""
        return cls(OrderKind.SCORED, np.zeros(jobs), network)


@runtime_checkable
class QueueOrder(Protocol):
    """A queue order, built in or plugged in."""

    @property
    def name(self) -> str:
        """Name of the order."""

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the sorting keys of the jobs of a workload."""


class Mode(IntEnum):
    """Ways in which a job starts (DRAS, section 3.2)."""

    WAITING = 0  # has not started
    READY = 1  # chosen at level 1, and fitted
    RESERVED = 2  # chosen at level 1 when it did not fit, and started by its reservation
    BACKFILLED = 3  # chosen at level 2, and did not delay the reservation


class Level(IntEnum):
    """Level at which the next job is chosen."""

    CLOSED = 0  # no choice before the next event
    FIRST = 1  # a job that starts now if it fits, and gets the reservation if not
    SECOND = 2  # a job that starts now and does not delay the reservation


class Reservations(IntEnum):
    """Ways to treat a reservation when an event occurs before it is due."""

    KEPT = 0  # it is kept until its job starts, which may become possible earlier but never later (DRAS)
    RENEWED = 1  # it is dropped: every scheduling instance begins at level 1 (EASY backfilling with a changing order)
    NONE = 2  # no reservations and no level 2: only jobs that fit may be chosen (Decima-PG, BinPacking, Random)
