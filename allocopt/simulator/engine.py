"""The engine: goes from one scheduling point to the next, and carries out the scheduler's decisions there."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.downtime import Downtime
from allocopt.cluster.platform import Platform
from allocopt.errors import InvalidSolutionError, UsageError
from allocopt.simulator.decisions import Decision, Pass, PlaceGuest, Requeue, Reserve, SetQuota, Start, Wait
from allocopt.simulator.execution import Change, ExecutionModel
from allocopt.simulator.kernels.events import HAPPENED
from allocopt.simulator.rooms import Size, room_of
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import (
    AnyScheduler,
    Blame,
    ListScheduler,
    Scheduler,
    SchedulerError,
    built_in_of,
    name_of,
)
from allocopt.simulator.state import ENDED, NOBODY, RUNNING, STARTED, listed, waits
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

# Limit for each job. A scheduler that requeues a job again and again would never end.
_MOST_REQUEUED = 10_000

# A pass is stalled if jobs wait and none starts or ends. A simulation ends with an error after more stalled passes in a
# row than this: if no event is left, if no job runs, and in all other cases. The last number also limits changes of
# speed in a row.
_MAX_STALLED_NO_EVENT, _MAX_STALLED_IDLE, _MAX_STALLED = 10_000, 100_000, 1_000_000


@runtime_checkable
class _StagedModel(ExecutionModel, Protocol):
    """An execution model that also changes speeds between events; the scheduler is also called at these changes."""

    def next_change(self) -> float:
        """Return the time, in seconds, of the next change of speeds if no event comes first; infinity for none."""


Observer = Callable[["Simulation"], None]
"""Called after every scheduling pass; must not change the simulation."""


def is_built_in_only(scheduler: AnyScheduler, execution: ExecutionModel | None, observer: Observer | None) -> bool:
    """Whether a built-in scheduler runs without an execution model or an observer; there may be an allocator."""
    return isinstance(scheduler, ListScheduler) and execution is None and observer is None


class Simulation:
    """A simulation that advances from one scheduling point to the next; see `simulate` for the arguments.

    ``is_watched`` states whether anything in addition to the scheduler, such as an observer, reads the running jobs.
    """

    def __init__(
        self,
        workload: Workload,
        platform: Platform | Cluster | Size,
        scheduler: AnyScheduler,
        rules: Rules | None = None,
        seed: int = 0,
        *,
        demands: Mapping[str, IntArray] | None = None,
        allocator: object = None,
        execution: ExecutionModel | None = None,
        is_watched: bool = False,
        downtimes: Sequence[Downtime] = (),
    ) -> None:
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise UsageError(f"the seed is {seed!r}, must be an integer >= 0")
        self.room = room_of(
            *(workload, platform, scheduler, rules or Rules(), int(seed)),
            demands=demands,
            allocator=allocator,
            is_watched=is_watched or execution is not None,
            downtimes=downtimes,
        )
        self.workload, self.state = workload, self.room.state
        self.view = View(workload, self.room, execution)
        self._scheduler, self._execution, self._ids = scheduler, execution, workload.ids
        self._staged = execution if isinstance(execution, _StagedModel) else None
        self._stalled_passes = self._stalled_changes = self._n_queued = 0

    def run(self, observer: Observer | None = None) -> None:
        """Simulate until no event is left; the observer is called after every pass."""
        if is_built_in_only(self._scheduler, self._execution, observer) and self.room.can_run_to_end:
            self.room.run()
            return
        while self.advance():
            self.decide()
            if observer is not None:
                observer(self)

    def advance(self) -> bool:
        """Go to the next scheduling point; return False if no event is left."""
        clock, now, until = self.state.clock, self.view.now, np.inf
        if self._staged is not None and clock["n_running"][0]:
            name = name_of(self._staged)
            with Blame(name, now):
                until = float(self._staged.next_change())
            if not until > now:
                raise SchedulerError(f"{name} changes speeds at {until:g} s, which is not after {now:g} s")
            happened = clock["n_started"][0] or clock["n_ended"][0]
            self._stalled_changes = 0 if happened else self._stalled_changes + 1
            if self._stalled_changes > _MAX_STALLED:
                raise SchedulerError(self._never_ends())
        if self.room.advance(until) != HAPPENED:
            if until == np.inf:
                return False
            # Speeds change before the next event; the scheduler is called at that time.
            clock["now"][0] = until
        return True

    def decide(self) -> None:
        """Run one pass and carry out its decisions.

        Raises `SchedulerError` if the scheduler raises, or a decision cannot be carried out.
        """
        if isinstance(self._scheduler, ListScheduler):
            self.room.schedule()
        else:
            self._run_scheduler(self._scheduler)
        self._settle()
        self._check_patience()

    def _run_scheduler(self, scheduler: Scheduler) -> None:
        name = name_of(scheduler)
        with Blame(name, self.view.now):
            for decision in scheduler.schedule(self.view):
                # Carry out each decision before requesting the next, so that a scheduler that yields sees its effect.
                try:
                    self._carry_out(name, decision)
                except InvalidSolutionError as error:
                    raise SchedulerError(f"{name} at time {self.view.now:g} s: {error}") from None

    def _check_patience(self) -> None:
        """Raise `SchedulerError` after too many stalled passes in a row."""
        clock = self.state.clock
        n_queued, n_running = int(clock["n_queued"][0]), int(clock["n_running"][0])
        if clock["n_started"][0] or clock["n_ended"][0] or not n_queued:
            self._stalled_passes = 0
        elif n_queued == self._n_queued:
            # If jobs have joined since the last pass, this pass neither counts as stalled nor resets the count.
            self._stalled_passes += 1
        self._n_queued = n_queued
        if self._stalled_passes > _MAX_STALLED_NO_EVENT:
            next_event = self.state.events["time"][0] if clock["n_events"][0] else np.inf
            nothing_comes = next_event == np.inf and clock["next_submission"][0] == self.state.jobs.size
            if nothing_comes and n_running and self._staged is None:
                raise SchedulerError(self._never_ends())
            if isinstance(self._scheduler, ListScheduler):
                return
            if nothing_comes or self._stalled_passes > (_MAX_STALLED if n_running else _MAX_STALLED_IDLE):
                raise SchedulerError(f"{name_of(self._scheduler)} starts no more jobs: {self._stalled()}")

    def _carry_out(self, name: str, decision: Decision) -> None:
        if isinstance(decision, Start):
            job = self._job_number(name, decision.job)
            if not self.room.start(job, decision.nodes, decision.tasks):
                raise InvalidSolutionError(self._start_fault(job))
        elif isinstance(decision, Reserve):
            job = self._job_number(name, decision.job)
            if not waits(self.state, job):
                raise SchedulerError(f"{name} reserves a time for job {self._ids[job]}, which does not wait")
            self._wake_at(name, decision.time)
            self.state.jobs["reserved"][job] = decision.time
        elif isinstance(decision, Requeue):
            self._requeue(name, self._job_number(name, decision.job))
        elif isinstance(decision, Wait):
            self._wake_at(name, decision.until)
        elif isinstance(decision, Pass):
            if built_in_of(self._scheduler) is None:
                raise SchedulerError(f"{name} asks for a pass of a built-in scheduler, but has none in `base`")
            self.room.schedule()
        elif isinstance(decision, PlaceGuest | SetQuota):
            self._carry_out_sharing(name, decision)
        else:
            fault = (
                f"{decision!r}, which is not a decision (Start, Reserve, Wait, Requeue, Pass, PlaceGuest or SetQuota)"
            )
            raise SchedulerError(f"{name} returned {fault}")

    def _requeue(self, name: str, job: int) -> None:
        record: Any = self.state.jobs[job]
        if np.isnan(record["start"]) or record["end"] <= self.view.now:
            raise SchedulerError(f"{name} requeues job {self._ids[job]}, which does not run")
        if record["requeues"] >= _MOST_REQUEUED:
            raise SchedulerError(f"{name} requeues job {self._ids[job]} more than {_MOST_REQUEUED:,} times")
        self.room.requeue(job)

    def _carry_out_sharing(self, name: str, decision: PlaceGuest | SetQuota) -> None:
        guests = self.room.guests
        if guests is None or self._execution is None:
            fault = "jobs can share processors only on a pool, with an execution model"
            raise SchedulerError(f"{name} returned {type(decision).__name__}: {fault}")
        host = self._job_number(name, decision.host)
        if isinstance(decision, SetQuota):
            guests.set_quota(host, decision.percent)
        elif not guests.start(job := self._job_number(name, decision.job), host, decision.percent):
            raise InvalidSolutionError(self._start_fault(job))

    def _wake_at(self, name: str, time: float) -> None:
        if not self.view.now < time < np.inf:
            raise SchedulerError(f"{name} asks to be called at {time:g} s, which is not after {self.view.now:g} s")
        wake = self.state.clock["wake"]
        wake[0] = min(wake[0], time)

    def _job_number(self, name: str, job: int) -> int:
        number = operator.index(job)
        if not 0 <= number < len(self._ids):
            raise SchedulerError(f"{name} names job number {job}, but jobs are numbered from 0 to {len(self._ids) - 1}")
        return number

    def _start_fault(self, job: int) -> str:
        start, who = self.state.jobs["start"][job], f"job {self._ids[job]}"
        if waits(self.state, job):
            return f"{who} cannot start: it {self.view.wants(job)}"
        if np.isnan(start):
            return f"{who} is started before it is submitted"
        return f"{who} is started twice, first at {start:g} s"

    def _settle(self) -> None:
        """Place jobs that have just started without nodes, and change speeds."""
        self.room.settle()
        if self._execution is None:
            return
        started, ended = listed(self.state, STARTED, "n_started"), listed(self.state, ENDED, "n_ended")
        running = listed(self.state, RUNNING, "n_running")
        name = name_of(self._execution)
        with Blame(name, self.view.now):
            placed = self.room if self.room.tracks_nodes else None
            change = Change(self.view.now, started, ended, running, placed, self.view.guests)
            speeds = [(self._job_number(name, job), float(speed)) for job, speed in self._execution.speeds(change)]
        for job, speed in speeds:
            if not 0 <= speed < np.inf or job not in running:
                raise SchedulerError(
                    f"{name} gives job {self._ids[job]} speed {speed}; the job must run, its speed be finite and >= 0"
                )
            self.room.change_speed(job, speed)

    def schedule(self) -> Schedule:
        """Return the schedule of a finished simulation; raise `SchedulerError` if a job still runs or waits."""
        jobs = self.state.jobs
        if self.state.clock["n_running"][0]:
            raise SchedulerError(self._never_ends())
        if self.state.clock["n_queued"][0]:
            raise SchedulerError(f"{name_of(self._scheduler)} leaves jobs waiting for ever: {self._stalled()}")
        start, end = jobs["start"].copy(), jobs["end"].copy()
        # Compute releases here, because a requeued job has joined the queue several times, and the first time counts.
        preceding = jobs["preceding"]
        depends = preceding != NOBODY
        release = jobs["submit"].copy()
        release[depends] = np.maximum(release[depends], end[preceding[depends]] + jobs["think"][depends])
        schedule = self.room.result(self.workload, release, start, end)
        if not jobs["requeues"].any():
            return schedule
        return replace(schedule, requeues=jobs["requeues"].copy(), lost_s=jobs["lost_s"].copy())

    def _never_ends(self) -> str:
        return f"job {self._ids[self.view.running[0]]} never ends: the execution model gives it speed 0"

    def _stalled(self) -> str:
        queue, job = self.view.queue, int(self.view.queue[0])
        waiting = "1 job waits" if len(queue) == 1 else f"{len(queue)} jobs wait"
        return f"{waiting}, the first is job {self._ids[job]}, which {self.view.wants(job)}"
