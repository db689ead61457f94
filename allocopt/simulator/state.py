"""The state of a simulation in the form that kernels use: a few arrays of numbers and records.

Jobs are numbered ``0 .. n - 1`` in the order of their workload, resources ``0 .. R - 1`` in the order of the platform.
Times are in seconds. A kernel reads a field of a record as ``state.jobs[job].start``; Python reads the field of all
jobs as ``state.jobs["start"]``.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, Records, record_dtype, record_type
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, Rules
from allocopt.simulator.scoring import Scores, new_scores
from allocopt.traces.workload import Workload

NOBODY = -1  # means no job

RUNNING, STARTED, ENDED, QUEUE, CANDIDATES = range(5)
"""Rows of `Events.lists`; the last two only of pools.

- ``RUNNING``: the running jobs by their expected ends, equal ones in the order of their starts; kept only if
  ``rules.track_running``.
- ``STARTED``, ``ENDED``: the jobs that started and ended since `advance` was called.
- ``QUEUE``: the waiting jobs in their order, from column ``clock.first`` on.
- ``CANDIDATES``: the same jobs in the order of backfilling, if that is a different one.
"""

FREE, CAPACITY, EXTRA = range(3)
"""Rows of `State.units`: idle units of each resource, all units, and units that are spare at the shadow time."""

BLOCK, SIZE_CLASSES = 128, 24
"""Columns of the queue in a block of `State.least`; jobs of ``2**(SIZE_CLASSES - 2)`` or more units form one class."""


class EventClock(Protocol):
    """Numbers of a simulation that events change."""

    now: float  # the time; -inf before the first event
    wake: float  # next time at which a pass is due even without an event
    next_submission: int  # first job that has not been submitted and does not wait for another job
    n_queued: int  # number of waiting jobs
    # Lengths of the lists.
    n_events: int
    n_running: int
    n_started: int
    n_ended: int
    n_joined: int  # jobs that joined the queue at the last event
    n_begun: int  # jobs started so far


class Clock(EventClock, Protocol):
    """The numbers that events change in the simulation of a pool."""

    shadow: float  # time at which the head of the queue can start by the estimates, as the last EASY pass found
    first: int  # column in which the queue begins
    n_profile: int
    n_planned: int  # jobs at the front of the queue that have a reservation
    unfinished: int  # not 0 if a pass was interrupted for handling Ctrl-C and must continue
    work: int  # units of work done: passes, examined jobs, steps of the profile
    is_blocked: int  # whether a job did not fit in this pass, 0 or 1
    looked_at: int  # position of the pass in the queue, or in the order of backfilling
    examined: int  # number of jobs at the front of the queue that cannot start before a job ends
    indexed: int  # 1 while `State.least` describes the waiting jobs
    n_gone: int  # columns of the indexed queue whose job has left; they hold the complement of its number


class PassRules(Protocol):
    """Rules for events and passes; enumerations by value, flags as 0 or 1."""

    event_order: int  # an `EventOrder`
    track_running: int  # whether the list of running jobs is kept
    order: int  # an `OrderKind`, for the queue
    backfill_order: int  # an `OrderKind`, for backfilling
    own_backfill_order: int  # whether backfilling has its own order
    backfill: int  # a `Backfill`
    predicts: int  # whether plans use predicted run times instead of estimates


class _RulesRecord(PassRules, Protocol):
    """Further rules for the built-in scheduler of a pool; flags as 0 or 1."""

    compression: int  # whether reservations move forward when a job ends early
    plan_ahead: int  # whether all jobs get reservations on arrival; if not, only when these matter for starts


class Event(Protocol):
    """The next event of a job: its end, or its release."""

    time: float
    rank: int  # unique; of two events at the same time the one with the lower rank is first
    job: int


class EventJob(Protocol):
    """Fields of a job that events change.

    Fields that are read together are adjacent, so that they share cache lines.
    """

    submit: float
    run: float  # run time at speed 1
    limit: float  # time after its start at which it is killed; infinite if jobs are not killed
    estimate: float
    preceding: int  # the job that has to end first, or ``NOBODY``
    dependent: int  # the first job that waits for this one
    release: float  # when it joined the queue; NaN before that time, as start and end are
    reserved: float  # start time of its last reservation; infinite without one
    event_rank: int  # rank of its next event, see `Event`
    event_place: int  # position of that event in the heap
    expected_end: float  # start plus estimate; or start plus predicted run time, until that time has passed
    start: float
    end: float  # at its current speed
    remaining: float  # remaining seconds of work when its speed last changed
    changed: float  # when its speed last changed
    speed: float
    think: float  # seconds from the end of the preceding job to the submission
    next_dependent: int  # the next job that waits for the same job as this one
    requeues: int  # how often it was requeued
    lost_s: float  # seconds that it ran before it was requeued


class JobRecord(EventJob, Protocol):
    """Record of a job of a pool."""

    order_value: float  # orders the queue (see `QueueKeys`)
    backfill_value: float  # orders backfilling
    order_rank: int  # its position among all jobs by the values
    backfill_rank: int
    user: int


class Events(Protocol):
    """Arrays that events change, for any machine."""

    @property
    def clock(self) -> Records[EventClock]:
        """The numbers that change, shape ``(1,)``."""

    @property
    def rules(self) -> Records[PassRules]:
        """Rules for events and passes, shape ``(1,)``."""

    @property
    def jobs(self) -> Records[EventJob]:
        """The jobs, in the order of submission."""

    @property
    def events(self) -> Records[Event]:
        """A binary heap of the events whose time is known, in the first ``clock.n_events`` of `n` records."""

    @property
    def lists(self) -> IntMatrix:
        """Lists of jobs, see ``RUNNING``; `n` columns."""

    @property
    def scores(self) -> Scores:
        """Arrays from which scores of waiting jobs are computed."""


class State(NamedTuple):
    """Arrays of a simulation of a pool of units."""

    clock: Records[Clock]  # the numbers that change, shape ``(1,)``
    rules: Records[_RulesRecord]  # rules for events and the built-in scheduler, shape ``(1,)``
    jobs: Records[JobRecord]
    events: Records[Event]
    request: IntMatrix  # units of each resource that a job holds while it runs, shape ``(n, R)``
    lists: IntMatrix  # lists of jobs, shape ``(5, n)``; see ``QUEUE``
    units: IntMatrix  # units of each resource, shape ``(3, R)``; see ``FREE``
    held: IntMatrix  # units that each user's jobs hold, shape ``(U, R)``
    # Conservative backfilling: times at which the steps of its profile begin, shape ``(K,)``, and the units without
    # reservation from then on, shape ``(K, R)``. If jobs are ordered by shares or scores, ``steps`` holds these values,
    # by job, behind the steps while a list is sorted: adjacent values are read much faster than fields of records.
    steps: FloatArray
    unpromised: IntMatrix
    # Lower bounds of requests, with which backfilling skips blocks of a long queue; see
    # `allocopt.simulator.kernels.queue`. No columns if there is no such index.
    least: FloatMatrix
    scores: Scores


STATE = record_type(State)
"""Numba type of `State`."""


def first_clock(record: type) -> Any:
    """Return a clock before the first event, a record of type `EventClock`; shape ``(1,)``."""
    clock = np.zeros(1, dtype=record_dtype(record))
    clock["now"], clock["wake"] = -np.inf, np.inf
    return clock


def waiting_jobs(record: type, submit: FloatArray, run: FloatArray, estimate: FloatArray) -> Any:
    """Return jobs that do not depend on others and are never killed, records of type `EventJob`; shape ``(n,)``."""
    jobs = np.zeros(len(submit), dtype=record_dtype(record))
    jobs["submit"], jobs["run"], jobs["estimate"] = submit, run, estimate
    jobs["limit"], jobs["reserved"], jobs["speed"] = np.inf, np.inf, 1.0
    for field in ("release", "start", "end", "expected_end"):
        jobs[field] = np.nan
    for field in ("preceding", "dependent", "next_dependent"):
        jobs[field] = NOBODY
    return jobs


def listed(state: Events, row: int, length: str) -> IntArray:
    """Return a copy of one of the lists of jobs, whose length is a field of the clock."""
    jobs: IntArray = state.lists[row, : state.clock[length][0]].copy()
    return jobs


def waits(state: Events, job: int) -> bool:
    """Whether a job has joined the queue and not started."""
    record: Any = state.jobs[job]
    return not np.isnan(record["release"]) and bool(np.isnan(record["start"]))


def wait_for(jobs: Any, preceding: IntArray, think: FloatArray) -> None:
    """Let jobs wait for the end of others, ``NOBODY`` for none, plus ``think`` seconds; arrays of shape ``(n,)``."""
    jobs["preceding"], jobs["think"] = preceding, think
    first, following = jobs["dependent"], jobs["next_dependent"]
    # Jobs that wait for the same job form a linked list in their order: that job has the first, each has the next.
    for job in np.flatnonzero(preceding != NOBODY)[::-1].tolist():
        following[job] = first[preceding[job]]
        first[preceding[job]] = job


def new_state(
    workload: Workload,
    request: IntMatrix,  # units of each resource that each job holds, shape ``(n, R)``
    capacity: IntArray,  # units of each resource of the machine, shape ``(R,)``
    rules: Rules,
    backfill: Backfill,
    order: QueueKeys,
    backfill_order: QueueKeys | None = None,
    *,
    compression: bool = False,  # whether conservative backfilling plans all again when a job ends early
    track_running: bool = False,  # whether running jobs are listed even if backfilling does not need it
    predicts: bool = False,  # whether EASY backfilling plans with predicted run times
) -> State:
    """Return the state before the first event."""
    n, n_resources = request.shape
    users, user = np.unique(workload.users, return_inverse=True)
    steps = 2 * n + 3 if backfill is Backfill.CONSERVATIVE else 0
    tried = order if backfill_order is None else backfill_order
    shares = n if max(order.kind, tried.kind) >= OrderKind.FAIR_SHARE else 0
    # An index pays if backfilling searches a queue that is ordered by ranks.
    has_index = (
        backfill in (Backfill.EASY, Backfill.FIRST_FIT)
        and backfill_order is None
        and order.kind <= OrderKind.FIXED
        and not predicts
    )
    units = np.zeros((3, n_resources), dtype=np.int64)
    units[FREE] = units[CAPACITY] = capacity
    clock = first_clock(Clock)
    clock["n_profile"] = 1
    numbers: Any = np.zeros(1, dtype=record_dtype(_RulesRecord))
    numbers["event_order"], numbers["order"], numbers["backfill"] = rules.event_order, order.kind, backfill
    numbers["backfill_order"], numbers["own_backfill_order"] = tried.kind, backfill_order is not None
    numbers["compression"], numbers["predicts"] = compression, predicts
    # In the order of arrival, planning later gives the same plan, as jobs start at their reservations, and every early
    # end discards the plan anyway. But an observer of the running jobs may also read the reservations.
    numbers["plan_ahead"] = (
        track_running or not compression or not rules.kill_at_limit or order.kind is not OrderKind.ARRIVAL
    )
    numbers["track_running"] = track_running or backfill >= Backfill.EASY
    jobs = waiting_jobs(JobRecord, workload.submit, workload.run, workload.estimate)
    jobs["limit"] = workload.estimate if rules.kill_at_limit else np.inf
    jobs["user"] = user
    if rules.dependencies:
        wait_for(jobs, workload.preceding_rows(), workload.think_s)
    jobs["order_value"], jobs["order_rank"] = order.values, _ranks(order.values)
    ranks = jobs["order_rank"] if tried is order else _ranks(tried.values)
    jobs["backfill_value"], jobs["backfill_rank"] = tried.values, ranks
    return State(
        clock=clock,
        rules=numbers,
        jobs=jobs,
        events=np.zeros(n, dtype=record_dtype(Event)),
        request=np.ascontiguousarray(request),
        lists=np.zeros((5, n), dtype=np.int64),
        units=units,
        held=np.zeros((len(users), n_resources), dtype=np.int64),
        steps=np.full(steps + shares, -np.inf),
        unpromised=np.tile(capacity, (steps, 1)),
        least=np.zeros((1 + SIZE_CLASSES, n // BLOCK + 1 if has_index else 0)),
        scores=new_scores(
            order, backfill_order, workload.estimate, request, capacity, workload.users, predicts=predicts
        ),
    )


def _ranks(values: FloatArray) -> IntArray:
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks
