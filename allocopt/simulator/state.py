"""The state of a simulation, as kernels take it: a few arrays of numbers and records.

Jobs are numbered ``0 .. n - 1`` in the order of their workload, resources ``0 .. R - 1`` in the order of the platform.
Times are in seconds. A record's field is read ``state.jobs[job].start`` in a kernel, and the field of all jobs
``state.jobs["start"]`` in Python.
"""

from typing import Any, NamedTuple, Protocol, TypeVar, overload

import numpy as np
from numba import float64, from_dtype, int64, types
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import tuple_type

NOBODY = -1
"""Stands where there is no job."""

QUEUE, CANDIDATES, EVENTS, RUNNING, STARTED, ENDED = range(6)
"""Rows of `State.lists`.

- ``QUEUE``: the waiting jobs in their order, from column ``clock.first`` on.
- ``CANDIDATES``: the same jobs in the order of backfilling, where that is another one.
- ``EVENTS``: a heap of the jobs of which it is known when they end, or join the queue after a preceding job.
- ``RUNNING``: the running jobs by the end that their estimates promise, where ``rules.track_running``.
- ``STARTED``, ``ENDED``: the jobs that started and ended since `advance` was called.
"""

FREE, CAPACITY, EXTRA = range(3)
"""Rows of `State.units`: idle units of each resource, all units, and those that are spare at the shadow time."""


class Clock(Protocol):
    """The numbers of a simulation that change."""

    now: float
    """The time; -inf before the first event."""
    wake: float
    """Next time at which a pass is due although nothing happens."""
    shadow: float
    """Time at which the head of the queue can start by the estimates, as the last EASY pass found."""
    next_submission: int
    """First job that has neither been submitted nor waits for another one."""
    first: int
    n_queued: int
    n_events: int
    n_running: int
    n_started: int
    n_ended: int
    n_profile: int
    """Lengths of the lists and of the profile; ``first`` is where the queue begins."""
    n_joined: int
    """Jobs that joined the queue at the last event."""
    n_begun: int
    """Jobs started so far."""
    n_planned: int
    """Jobs at the front of the queue that have a reservation."""
    unfinished: int
    """Part of a pass that is to go on, counted from 1, for it stopped to let the user interrupt; 0 after all of it."""
    examined: int
    """Jobs at the front of the queue of which none can start before a job ends."""
    ended_early: int
    """1 when a job has ended before its estimate since the last pass."""
    indexed: int
    """1 while `State.least` describes the waiting jobs."""
    n_gone: int
    """Columns of the indexed queue whose job has left; they hold its complement."""


class RulesRecord(Protocol):
    """How events are taken and what the built-in scheduler does: enumerations by value, flags as 0 or 1."""

    event_order: int
    """An `EventOrder`."""
    order: int
    backfill_order: int
    """An `OrderKind`, for the queue and for backfilling."""
    own_backfill_order: int
    """Whether backfilling has another order than the queue."""
    backfill: int
    """A `Backfill`."""
    compression: int
    """Whether reservations move forward when a job ends early."""
    plan_ahead: int
    """Whether all jobs get their reservations on arrival, or only once it matters to who starts."""
    track_running: int
    """Whether the list of running jobs is kept."""


class JobRecord(Protocol):
    """A job."""

    submit: float
    run: float
    """Run time at speed 1."""
    limit: float
    """Time after its start at which it is killed; infinite where jobs are not killed."""
    estimate: float
    think: float
    """Seconds from the end of the preceding job to the submission."""
    order_value: float
    backfill_value: float
    """Values by which the queue and backfilling are ordered (see `QueueKeys`)."""
    release: float
    start: float
    end: float
    """When it joined the queue, started, and ends at its present speed; NaN before that is known."""
    event: float
    """When something happens to it next: its end, or its release."""
    expected_end: float
    """Its start plus its estimate."""
    remaining: float
    speed: float
    changed: float
    """Seconds of work that were left when its speed last changed, that speed, and when."""
    reserved: float
    """Start time it was promised; infinite where there is no promise."""
    order_rank: int
    backfill_rank: int
    """Its place among all jobs by the values."""
    user: int
    preceding: int
    """The job that has to end first, or ``NOBODY``."""
    dependent: int
    next_dependent: int
    """First job that waits for this one, and the next one that waits for the same job as this one."""
    event_rank: int
    """Which of two events at the same time comes first: the lower, no two of which are equal."""
    event_place: int
    """Its place in the heap of events."""


class Step(Protocol):
    """A step of the profile."""

    time: float


Record = TypeVar("Record", covariant=True)


class Records(Protocol[Record]):
    """Records in a row."""

    @overload
    def __getitem__(self, key: int) -> Record: ...
    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...
    def __getitem__(self, key: int | str) -> Record | NDArray[Any]:
        """Return a record (in a kernel), or a field of all records."""

    @property
    def size(self) -> int:
        """Number of records."""


class State(NamedTuple):
    """A simulation.

    Parameters
    ----------
    clock
        The numbers that change, shape ``(1,)``.
    rules
        How events are taken and what the built-in scheduler does, shape ``(1,)``.
    jobs
        The jobs, shape ``(n,)``.
    request
        Units of each resource that a job holds while it runs, shape ``(n, R)``.
    lists
        Lists of jobs, shape ``(6, n)``; see ``QUEUE``.
    units
        Units of each resource, shape ``(3, R)``; see ``FREE``.
    held
        Units that each user's jobs hold, shape ``(U, R)``.
    steps, unpromised
        Conservative backfilling: times at which the steps of its profile begin, and the units that are not promised
        to anyone from then on, shape ``(K, R)``.
    least
        Lower bounds of what jobs ask for, by which backfilling passes over blocks of a long queue; see
        `allocopt.simulator.kernels.queue`. No rows where it does not.
    """

    clock: Records[Clock]
    rules: Records[RulesRecord]
    jobs: Records[JobRecord]
    request: IntArray
    lists: IntArray
    units: IntArray
    held: IntArray
    steps: Records[Step]
    unpromised: IntArray
    least: FloatArray


def record_dtype(record: type) -> np.dtype[np.void]:
    """Memory layout of a record."""
    fields = record.__annotations__.items()
    return np.dtype([(name, np.float64 if kind is float else np.int64) for name, kind in fields])


CLOCK_DTYPE, RULES_DTYPE, JOB_DTYPE, STEP_DTYPE = map(record_dtype, (Clock, RulesRecord, JobRecord, Step))


def records_type(dtype: np.dtype[np.void], dimensions: int = 1) -> Any:
    """Numba type of an array of records."""
    return types.Array(from_dtype(dtype), dimensions, "C")


_MATRIX = int64[:, ::1]

STATE = tuple_type(
    (
        *map(records_type, (CLOCK_DTYPE, RULES_DTYPE, JOB_DTYPE)),
        *(_MATRIX, _MATRIX, _MATRIX, _MATRIX),
        records_type(STEP_DTYPE),
        _MATRIX,
        float64[:, ::1],
    ),
    State,
)
"""Numba type of `State`."""
