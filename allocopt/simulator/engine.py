"""A simulation that a scheduler written in Python, an allocator or an execution model takes part in."""

import operator
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from allocopt.arrays import IntArray, frozen_integers
from allocopt.cluster.platform import Platform
from allocopt.errors import InvalidProblemError, InvalidSolutionError, UsageError
from allocopt.simulator.execution import Change, ExecutionModel
from allocopt.simulator.kernels.backfilling import list_pass, next_backfillable, shadow_of, start_waiting
from allocopt.simulator.kernels.conservative import conservative_pass
from allocopt.simulator.kernels.events import HAPPENED, advance, change_speed
from allocopt.simulator.kernels.queue import place_in_queue
from allocopt.simulator.placement import Allocator, DepthFirst, Guests, Placement, Share
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, QueueOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import (
    Blame,
    Decision,
    ListScheduler,
    PlaceGuest,
    Reserve,
    Scheduler,
    SchedulerError,
    SetQuota,
    Start,
    Wait,
)
from allocopt.simulator.state import ENDED, EVENTS, RUNNING, STARTED, new_state
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

# A number of processors, which stands for a pool of so many.
Size = int | np.integer[Any]

# Calls at its own wish in which a scheduler may leave jobs waiting: although nothing is to come, although nothing runs,
# whoever is still to come, and between two starts or ends of jobs.
_PATIENCE, _IDLE_PATIENCE, _LONG_PATIENCE = 10_000, 100_000, 1_000_000

# Entries that a simulation calls from one scheduling point to the next under a scheduler written in Python.
PYTHON_KERNELS = (advance, next_backfillable, place_in_queue, shadow_of, start_waiting)


@runtime_checkable
class _StagedModel(ExecutionModel, Protocol):
    """An execution model under which speeds also change between two events; then, too, the scheduler is called."""

    def next_change(self) -> float:
        """When that is next, in seconds, after the last call of `speeds`; infinite for not before the next event."""


class Simulation:
    """A simulation before its first event, which steps from one scheduling point to the next; see `simulate`.

    ``is_watched`` says whether somebody looks at the running jobs besides the scheduler.
    """

    def __init__(
        self,
        workload: Workload,
        platform: Platform | Size,
        scheduler: ListScheduler | Scheduler,
        rules: Rules | None = None,
        seed: int = 0,
        *,
        demands: Mapping[str, IntArray] | None = None,
        allocator: Allocator | None = None,
        execution: ExecutionModel | None = None,
        is_watched: bool = False,
    ) -> None:
        if isinstance(platform, int | np.integer):
            platform = Platform.pool(int(platform))
        if not isinstance(platform, Platform):
            raise UsageError(f"the platform is {platform!r}, must be a Platform or a number of processors")
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise UsageError(f"the seed is {seed!r}, must be a whole number, not negative")
        if platform.has_nodes:
            allocator = allocator or DepthFirst()
        elif allocator is not None:
            raise UsageError("an allocator needs a platform with nodes, this one is a pool of processors")
        posed = workload, _requests(workload, platform, demands or {}), platform.total, rules or Rules()
        rng = np.random.default_rng(seed)
        if isinstance(scheduler, ListScheduler):
            self.state = new_state(
                *posed,
                scheduler.backfill,
                keys_of(scheduler.order, workload, rng),
                None if scheduler.backfill_order is None else keys_of(scheduler.backfill_order, workload, rng),
                compression=scheduler.compression,
                track_running=is_watched or execution is not None,
            )
        else:
            # What the view tells of waiting jobs is by the rules of EASY.
            self.state = new_state(*posed, Backfill.EASY, QueueKeys(OrderKind.ARRIVAL, np.zeros(len(workload))))
        self.workload, self.platform = workload, platform
        # Without an allocator nodes are not tracked.
        self.placement = None if allocator is None else Placement(platform, workload.ids)
        self.guests = Guests(self.state, workload.ids)
        self.view = View(workload, platform, self.state, self.placement, self.guests.of, execution, rng)
        self._allocator, self._execution, self._ids = allocator, execution, workload.ids
        self._staged = execution if isinstance(execution, _StagedModel) else None
        self._still_passes = self._still_changes = self._n_queued = 0

    def advance(self) -> bool:
        """Go to the next scheduling point; return False when nothing is left to happen."""
        clock, now, until = self.state.clock, self.view.now, np.inf
        if self._staged is not None and clock["n_running"][0]:
            name = name_of(self._staged)
            with Blame(name, now):
                until = float(self._staged.next_change())
            if not until > now:
                raise SchedulerError(f"{name} changes speeds at {until:g} s, which is not after {now:g} s")
            happened = clock["n_started"][0] or clock["n_ended"][0]
            self._still_changes = 0 if happened else self._still_changes + 1
            if self._still_changes > _LONG_PATIENCE:
                raise SchedulerError(self._never_ends())
        if advance(self.state, until) != HAPPENED:
            if until == np.inf:
                return False
            # Nothing happens before speeds change; then, too, the scheduler is called.
            clock["now"][0] = until
            return True
        # Guests run on a pool only.
        if self.placement is not None:
            for job in self._listed(ENDED, "n_ended").tolist():
                self.placement.release(job)
        elif self.guests.of:
            self.guests.leave(self._listed(ENDED, "n_ended").tolist())
        return True

    def decide(self, scheduler: ListScheduler | Scheduler) -> None:
        """Start what the scheduler decides; raise `SchedulerError` if it raises, or decides what cannot be done."""
        if isinstance(scheduler, ListScheduler):
            built_in = conservative_pass if scheduler.backfill is Backfill.CONSERVATIVE else list_pass
            # A long pass stops now and then, so that Ctrl-C is seen between its parts.
            built_in(self.state)
            while self.state.clock["unfinished"][0]:
                built_in(self.state)
            self._settle()
            return
        name = name_of(scheduler)
        with Blame(name, self.view.now):
            for decision in scheduler.schedule(self.view):
                # Each is taken before the next one is asked for: a scheduler that yields sees what it has done.
                try:
                    self._take(name, decision)
                except InvalidSolutionError as error:
                    raise SchedulerError(f"{name} at time {self.view.now:g} s: {error}") from None
        self._settle()
        clock = self.state.clock
        n_queued, n_running = int(clock["n_queued"][0]), int(clock["n_running"][0])
        if clock["n_started"][0] or clock["n_ended"][0] or not n_queued:
            self._still_passes = 0
        elif n_queued == self._n_queued:
            # Those who only join the queue change nothing for a scheduler that starts nobody.
            self._still_passes += 1
        self._n_queued = n_queued
        if self._still_passes > _PATIENCE:
            next_event = self.state.jobs["event"][self.state.lists[EVENTS, 0]] if clock["n_events"][0] else np.inf
            nothing_comes = next_event == np.inf and clock["next_submission"][0] == self.state.jobs.size
            if nothing_comes and n_running:
                raise SchedulerError(self._never_ends())
            if nothing_comes or self._still_passes > (_LONG_PATIENCE if n_running else _IDLE_PATIENCE):
                raise SchedulerError(f"{name} waits for nothing: {self._stalled()}")

    def _take(self, name: str, decision: Decision) -> None:
        if isinstance(decision, Start):
            job = self._number(name, decision.job)
            if not start_waiting(self.state, job):
                raise InvalidSolutionError(self._start_fault(job))
            if decision.nodes is None:
                return
            if self.placement is None:
                raise SchedulerError(f"{name} chooses nodes for job {self._ids[job]}, but the platform is a pool")
            share = self.placement.share_of(frozen_integers(decision.nodes), self.view.request[job])
            self.placement.hold(job, share, self.view.request[job])
        elif isinstance(decision, Reserve):
            job = self._number(name, decision.job)
            if place_in_queue(self.state, job) < 0:
                raise SchedulerError(f"{name} reserves a time for job {self._ids[job]}, which does not wait")
            self._wake_at(name, decision.time)
            self.state.jobs["reserved"][job] = decision.time
        elif isinstance(decision, Wait):
            self._wake_at(name, decision.until)
        elif isinstance(decision, PlaceGuest | SetQuota):
            self._share(name, decision)
        else:
            told = f"{decision!r}, which is no decision: Start, Reserve, Wait, PlaceGuest or SetQuota"
            raise SchedulerError(f"{name} returned {told}")

    def _share(self, name: str, decision: PlaceGuest | SetQuota) -> None:
        if self.placement is not None or self._execution is None:
            raise SchedulerError(f"{name} shares units: that needs a pool, and an execution model for it")
        host = self._number(name, decision.host)
        if isinstance(decision, SetQuota):
            self.guests.set_quota(host, decision.percent)
        elif not self.guests.start(job := self._number(name, decision.job), host, decision.percent):
            raise InvalidSolutionError(self._start_fault(job))

    def _wake_at(self, name: str, time: float) -> None:
        if not self.view.now < time < np.inf:
            raise SchedulerError(f"{name} wants to be called at {time:g} s, which is not after {self.view.now:g} s")
        wake = self.state.clock["wake"]
        wake[0] = min(wake[0], time)

    def _number(self, name: str, job: int) -> int:
        number = operator.index(job)
        if not 0 <= number < len(self._ids):
            raise SchedulerError(f"{name} names job number {job}, there are {len(self._ids)} jobs, numbered from 0")
        return number

    def _start_fault(self, job: int) -> str:
        start, who = self.state.jobs["start"][job], f"job {self._ids[job]}"
        if place_in_queue(self.state, job) >= 0:
            return f"{who} is started, it asks for {self.view.request[job]} units where {self.view.free} are free"
        if np.isnan(start):
            return f"{who} is started before it is submitted"
        return f"{who} is started twice, first at {start:g} s"

    def _settle(self) -> None:
        """Give nodes to the jobs that have just started without, and change speeds."""
        if self.placement is None and self._execution is None:
            return
        started = self._listed(STARTED, "n_started")
        placement, allocator, request = self.placement, self._allocator, self.view.request
        jobs = [] if placement is None else [job for job in started.tolist() if placement.shares[job] is None]
        if placement is not None and allocator is not None and jobs:
            name = name_of(allocator)
            with Blame(name, self.view.now):
                names = [str(self._ids[job]) for job in jobs]
                placed = allocator.place(names, request[jobs], placement.free.copy())
                shares = [Share(frozen_integers(nodes), frozen_integers(units)) for nodes, units in placed]
            if len(shares) != len(jobs):
                raise SchedulerError(f"{name} places {len(shares)} jobs where {len(jobs)} have started")
            try:
                for job, share in zip(jobs, shares, strict=True):
                    placement.hold(job, share, request[job])
            except InvalidSolutionError as error:
                raise SchedulerError(f"{name} at time {self.view.now:g} s: {error}") from None
        if self._execution is None:
            return
        running, ended = self._listed(RUNNING, "n_running"), self._listed(ENDED, "n_ended")
        name = name_of(self._execution)
        with Blame(name, self.view.now):
            change = Change(self.view.now, started, ended, running, self.placement, self.guests.of)
            speeds = [(self._number(name, job), float(speed)) for job, speed in self._execution.speeds(change)]
        for job, speed in speeds:
            if not 0 <= speed < np.inf or job not in running:
                raise SchedulerError(f"{name} gives job {self._ids[job]} speed {speed}, must be a running job's, >= 0")
            change_speed(self.state, job, speed)

    def _listed(self, row: int, length: str) -> IntArray:
        return self.state.lists[row, : self.state.clock[length][0]].copy()

    def schedule(self, scheduler: ListScheduler | Scheduler) -> Schedule:
        """Return what came out; raise `SchedulerError` if a job never ends, or the scheduler leaves some waiting."""
        jobs, held = self.state.jobs, self.guests.ended_at
        if self.state.clock["n_running"][0]:
            raise SchedulerError(self._never_ends())
        if self.state.clock["n_queued"][0]:
            raise SchedulerError(f"{name_of(scheduler)} leaves jobs waiting for ever: {self._stalled()}")
        release, start, end = (jobs[field].copy() for field in ("release", "start", "end"))
        held_from = start.copy() if held else None
        if held_from is not None:
            held_from[list(held)] = list(held.values())
        nodes, platform = None if self.placement is None else self.placement.nodes(), self.platform
        return Schedule(self.workload, platform.size, release, start, end, nodes, platform.topology, held_from)

    def _never_ends(self) -> str:
        return f"job {self._ids[self.view.running[0]]} never ends: the execution model gives it speed 0"

    def _stalled(self) -> str:
        queue, job = self.view.queue, int(self.view.queue[0])
        resources = zip(self.view.request[job], self.platform.resources, strict=True)
        asked = ", ".join(f"{units} {name}" for units, name in resources)
        free = ", ".join(map(str, self.view.free))
        waiting = "1 job waits" if len(queue) == 1 else f"{len(queue)} jobs wait"
        return f"{waiting}, the first is job {self._ids[job]}, which asks for {asked} where {free} are free"


def name_of(part: object) -> str:
    """Return the name of a scheduler or model, for people."""
    return str(getattr(part, "name", type(part).__name__))


def _requests(workload: Workload, platform: Platform, demands: Mapping[str, IntArray]) -> IntArray:
    if not len(workload):
        raise InvalidProblemError("workload", f"{workload.name} holds no jobs")
    unknown = sorted(set(demands) - set(platform.resources[1:]))
    if unknown:
        known = ", ".join(platform.resources[1:]) or "none"
        raise UsageError(f"demands for {unknown[0]!r}: resources of this platform that can be asked for: {known}")
    columns = [workload.processors]
    for name in platform.resources[1:]:
        units = demands.get(name, np.zeros(len(workload), dtype=np.int64))
        if np.shape(units) != (len(workload),) or np.asarray(units).dtype.kind not in "iu":
            raise UsageError(f"demands for {name!r} must be {len(workload)} whole numbers, one for each job")
        columns.append(frozen_integers(units))
    request = np.stack(columns, axis=1)
    for name, units, total in zip(platform.resources, request.T, platform.total, strict=True):
        if units.min() < 0 or units.max() > total:
            job = int(np.argmax((units < 0) | (units > total)))
            fault = f"asks for {units[job]} {name}, the machine has {total}; skip_oversized = true drops such jobs"
            raise InvalidProblemError(f"job {workload.ids[job]}", fault)
    return request


def keys_of(order: QueueOrder, workload: Workload, rng: np.random.Generator) -> QueueKeys:
    """Return the keys of a queue order; raise `SchedulerError` if it raises, or they are not one for each job."""
    name = f"queue order {order.name!r}"
    with Blame(name):
        keys = order.keys(workload, rng)
    if not isinstance(keys, QueueKeys) or np.shape(keys.values) != (len(workload),):
        raise SchedulerError(f"{name} must return QueueKeys with one value for each of the {len(workload)} jobs")
    return keys
