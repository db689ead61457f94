"""The state of a simulation, as kernels take it: a few arrays of numbers and records, made from a workload.

Jobs are numbered ``0 .. n - 1`` in the order of their workload, resources ``0 .. R - 1`` in the order of the platform.
Times are in seconds. A record's field is read ``state.jobs[job].start`` in a kernel, and the field of all jobs
``state.jobs["start"]`` in Python.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, Records, record_dtype, record_type
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, Rules
from allocopt.simulator.scoring import Scores, new_scores
from allocopt.traces.workload import Workload

NOBODY = -1  # stands where there is no job

RUNNING, STARTED, ENDED, QUEUE, CANDIDATES = range(5)
"""Rows of `Events.lists`, the last two of those of pools only.

- ``RUNNING``: the running jobs by the end that their estimates promise, equal ones in the order of their starts, where
  ``rules.track_running``.
- ``STARTED``, ``ENDED``: the jobs that started and ended since `advance` was called.
- ``QUEUE``: the waiting jobs in their order, from column ``clock.first`` on.
- ``CANDIDATES``: the same jobs in the order of backfilling, where that is another one.
"""

FREE, CAPACITY, EXTRA = range(3)
"""Rows of `State.units`: idle units of each resource, all units, and those that are spare at the shadow time."""

BLOCK, SIZE_CLASSES = 128, 24
"""Columns of a block of `State.least`; jobs of ``2**(SIZE_CLASSES - 2)`` units and more are of one class."""


class EventClock(Protocol):
    """Numbers of a simulation that events change."""

    now: float  # the time; -inf before the first event
    wake: float  # next time at which a pass is due although nothing happens
    next_submission: int  # first job that has neither been submitted nor waits for another one
    n_queued: int  # jobs that wait; now the lengths of the lists:
    n_events: int
    n_running: int
    n_started: int
    n_ended: int
    n_joined: int  # jobs that joined the queue at the last event
    n_begun: int  # jobs started so far


class Clock(EventClock, Protocol):
    """Numbers of a simulation of a pool that change."""

    shadow: float  # time at which the head of the queue can start by the estimates, as the last EASY pass found
    first: int  # where the queue begins
    n_profile: int
    n_planned: int  # jobs at the front of the queue that have a reservation
    unfinished: int  # not 0 where a pass is to go on, for it stopped to let the user interrupt
    work: int  # units of work done: passes, jobs that may have been looked at, steps of the profile
    is_blocked: int  # whether a job has found no room in this pass, 0 or 1
    looked_at: int  # the place in the queue, or in the order of backfilling, that the pass has come to
    examined: int  # jobs at the front of the queue of which none can start before a job ends
    indexed: int  # 1 while `State.least` describes the waiting jobs
    n_gone: int  # columns of the indexed queue whose job has left; they hold its complement


class PassRules(Protocol):
    """How events are taken, and passes along the queue go: enumerations by value, flags as 0 or 1."""

    event_order: int  # an `EventOrder`
    track_running: int  # whether the list of running jobs is kept
    order: int  # an `OrderKind`, for the queue
    backfill_order: int  # an `OrderKind`, for backfilling
    own_backfill_order: int  # whether backfilling has another order than the queue
    backfill: int  # a `Backfill`
    predicts: int  # whether plans take predicted run times for those of jobs, not their estimates


class _RulesRecord(PassRules, Protocol):
    """What the built-in scheduler of a pool does, besides: flags as 0 or 1."""

    compression: int  # whether reservations move forward when a job ends early
    plan_ahead: int  # whether all jobs get their reservations on arrival, or only once it matters to who starts


class Event(Protocol):
    """The next thing that happens to a job: its end, or its release."""

    time: float
    rank: int  # which of two events at the same time comes first: the lower, no two of which are equal
    job: int


class EventJob(Protocol):
    """What events change of a job.

    Fields that are read together stand together, so that they share lines of the processor's cache.
    """

    submit: float
    run: float  # run time at speed 1
    limit: float  # time after its start at which it is killed; infinite where jobs are not killed
    estimate: float
    preceding: int  # the job that has to end first, or ``NOBODY``
    dependent: int  # the first job that waits for this one
    release: float  # when it joined the queue; NaN before that is known, as are the start and the end
    reserved: float  # start time it was promised last; infinite where there is no promise
    event_rank: int  # of its next event, see `Event`
    event_place: int  # place of that event in the heap
    expected_end: float  # its start plus its estimate, or plus a predicted run time until that has passed
    start: float
    end: float  # at its present speed
    remaining: float  # seconds of work that were left when its speed last changed
    changed: float  # when its speed last changed
    speed: float
    think: float  # seconds from the end of the preceding job to the submission
    next_dependent: int  # the next job that waits for the same one as this one
    requeues: int  # how often it was stopped and joined the queue again
    lost_s: float  # seconds that it ran before


class JobRecord(EventJob, Protocol):
    """Record of a job of a pool."""

    order_value: float  # orders the queue (see `QueueKeys`)
    backfill_value: float  # orders backfilling
    order_rank: int  # its place among all jobs by the values
    backfill_rank: int
    user: int


class Events(Protocol):
    """Arrays that events change, of any machine."""

    @property
    def clock(self) -> Records[EventClock]:
        """The numbers that change, shape ``(1,)``."""

    @property
    def rules(self) -> Records[PassRules]:
        """How events are taken and passes go, shape ``(1,)``."""

    @property
    def jobs(self) -> Records[EventJob]:
        """The jobs, in the order of submission."""

    @property
    def events(self) -> Records[Event]:
        """A binary heap of the events whose time is known, the first ``clock.n_events`` of `n` records."""

    @property
    def lists(self) -> IntMatrix:
        """Lists of jobs, see ``RUNNING``; of `n` columns."""

    @property
    def scores(self) -> Scores:
        """What scores of waiting jobs are computed from."""


class State(NamedTuple):
    """Arrays of a simulation of a pool of units."""

    clock: Records[Clock]  # the numbers that change, shape ``(1,)``
    rules: Records[_RulesRecord]  # how events are taken and what the built-in scheduler does, shape ``(1,)``
    jobs: Records[JobRecord]
    events: Records[Event]
    request: IntMatrix  # units of each resource that a job holds while it runs, shape ``(n, R)``
    lists: IntMatrix  # lists of jobs, shape ``(5, n)``; see ``QUEUE``
    units: IntMatrix  # units of each resource, shape ``(3, R)``; see ``FREE``
    held: IntMatrix  # units that each user's jobs hold, shape ``(U, R)``
    # Conservative backfilling: times at which the steps of its profile begin, shape ``(K,)``, and the units that nobody
    # is promised from then on, shape ``(K, R)``. Where shares or scores order jobs, theirs follow the steps, by job,
    # while a list is sorted: side by side they are read much faster than from the records.
    steps: FloatArray
    unpromised: IntMatrix
    # Lower bounds of what jobs ask for, by which backfilling passes over blocks of a long queue; see
    # `allocopt.simulator.kernels.queue`. No rows where it does not.
    least: FloatMatrix
    scores: Scores


STATE = record_type(State)
"""Numba type of `State`."""


def first_clock(record: type) -> Any:
    """Return the numbers that change before the first event, of a record that is an `EventClock`; shape ``(1,)``."""
    clock = np.zeros(1, dtype=record_dtype(record))
    clock["now"], clock["wake"] = -np.inf, np.inf
    return clock


def waiting_jobs(record: type, submit: FloatArray, run: FloatArray, estimate: FloatArray) -> Any:
    """Return jobs that wait for no other and are never killed, of a record that is an `EventJob`; shape ``(n,)``."""
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
    """Let jobs wait for the end of others, ``NOBODY`` for none, and then as many seconds; arrays of shape ``(n,)``."""
    jobs["preceding"], jobs["think"] = preceding, think
    first, following = jobs["dependent"], jobs["next_dependent"]
    # The jobs that wait for the same one are chained in their order: the first is known to it, the next to each.
    for job in np.flatnonzero(preceding != NOBODY)[::-1].tolist():
        following[job] = first[preceding[job]]
        first[preceding[job]] = job


def new_state(
    workload: Workload,
    request: IntMatrix,  # units of each resource that each job holds, shape ``(n, R)``
    capacity: IntArray,  # units of each resource that there are, shape ``(R,)``
    rules: Rules,
    backfill: Backfill,
    order: QueueKeys,
    backfill_order: QueueKeys | None = None,
    *,
    compression: bool = False,  # whether conservative backfilling plans all anew when a job ends early
    track_running: bool = False,  # whether running jobs are listed although backfilling does not need it
    predicts: bool = False,  # whether EASY backfilling plans with predicted run times
) -> State:
    """Return the state before the first event."""
    n, n_resources = request.shape
    users, user = np.unique(workload.users, return_inverse=True)
    steps = 2 * n + 3 if backfill is Backfill.CONSERVATIVE else 0
    tried = order if backfill_order is None else backfill_order
    shares = n if max(order.kind, tried.kind) >= OrderKind.FAIR_SHARE else 0
    # An index pays where backfilling looks through a queue whose order is that of ranks.
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
    # Between two early ends, which undo all of it, a plan in the order of arrival comes out the same made later: jobs
    # start where they were promised to. Who looks at the running jobs may look at the reservations, too.
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
