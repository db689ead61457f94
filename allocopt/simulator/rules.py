"""The choices that a simulation leaves open, each with its default, and queue orders as data that kernels follow."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.traces.workload import Workload


class EventOrder(IntEnum):
    """Order in which simultaneous events are taken."""

    BATCHED = 0
    """All ends, then all submissions, then one scheduling pass."""
    SEQUENTIAL = 1
    """One event at a time, submissions before ends, a pass after each (so do pyss and Gaussier et al., SC'15)."""


class Backfill(IntEnum):
    """Which jobs may start although one before them in the queue cannot."""

    NONE = 0
    """None: the first job that does not fit blocks the others."""
    FIRST_FIT = 1
    """All that fit; nothing is promised to the job that waits first."""
    EASY = 2
    """Those that do not delay the first waiting job beyond the time the estimates promise it (Lifka 1995)."""
    CONSERVATIVE = 3
    """Those that delay no job beyond its promise; every job has one from its submission on."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of a simulation that no scheduler decides. Raises `UsageError` if the event order is none.

    Parameters
    ----------
    kill_at_limit
        Whether a job ends when its estimate is over, or runs as long as was recorded; then an estimated end that has
        passed counts as now.
    dependencies
        Whether a job with a preceding job is submitted only when that has ended and the think time is over, not
        before its own submit time.
    """

    event_order: EventOrder = EventOrder.BATCHED
    kill_at_limit: bool = True
    dependencies: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.event_order, EventOrder):
            choices = ", ".join(f"EventOrder.{kind.name}" for kind in EventOrder)
            raise UsageError(f"event_order is {self.event_order!r}, must be one of {choices}")


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
    SCORED = 4
    """The lowest score of a network first; the values are not looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class QueueKeys:
    """Sorting keys of a workload: one value per job, shape ``(n,)``.

    Raises `UsageError` if a value is NaN, or the network is not one of finite numbers where a score needs one.

    Parameters
    ----------
    kind
        What the values mean.
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
            raise UsageError("queue keys have a network if they are scores, and only then")
        if self.network is not None and not np.isfinite(self.network).all():
            raise UsageError("a weight of the network that scores jobs is not a finite number")

    @classmethod
    def by_arrival(cls, jobs: int) -> "QueueKeys":
        """Return the keys of so many jobs that stand in the order in which they join the queue."""
        return cls(OrderKind.ARRIVAL, np.zeros(jobs))

    @classmethod
    def by_score(cls, jobs: int, network: FloatArray) -> "QueueKeys":
        """Return the keys of so many jobs that stand in the order of their scores, the lowest first."""
        return cls(OrderKind.SCORED, np.zeros(jobs), network)


@runtime_checkable
class QueueOrder(Protocol):
    """A queue order, built in or plugged in."""

    @property
    def name(self) -> str:
        """Name under which it is asked for."""

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the sorting keys of the jobs of a workload."""


class Mode(IntEnum):
    """Ways in which a job starts (DRAS, section 3.2)."""

    WAITING = 0  # it has not started
    READY = 1  # it was chosen at level 1 and fitted
    RESERVED = 2  # it was chosen at level 1 when it did not fit, and started by its reservation
    BACKFILLED = 3  # it was chosen at level 2 and did not delay the reservation


class Level(IntEnum):
    """Level at which the next job is chosen."""

    CLOSED = 0  # nothing before the next event
    FIRST = 1  # a job that starts at once if it fits and gets the reservation if not
    SECOND = 2  # a job that starts at once and does not delay the reservation


class Reservations(IntEnum):
    """Ways to treat a reservation when something happens before it is due."""

    KEPT = 0  # it stands until its job starts, which may become possible earlier but never later (DRAS)
    RENEWED = 1  # it lapses: every scheduling instance begins at level 1 (EASY backfilling under an order that changes)
    NONE = 2  # there are none, and no level 2: only jobs that fit may be chosen (Decima-PG, BinPacking, Random)
