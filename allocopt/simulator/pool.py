"""Room on a platform: units are counted in total, and placed on nodes, if there are any, once a job has started."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray, frozen_integers, read_only
from allocopt.cluster.downtime import Downtime
from allocopt.cluster.platform import Platform
from allocopt.errors import InvalidProblemError, InvalidSolutionError, UsageError
from allocopt.interruption import run_in_slices
from allocopt.problems.topology import Job
from allocopt.simulator.held_nodes import Allocator, DepthFirst, Guests, HeldNodes, Share
from allocopt.simulator.kernels.backfilling import list_pass, next_backfillable, run, shadow_of, start_waiting
from allocopt.simulator.kernels.conservative import conservative_pass, run_conservative
from allocopt.simulator.kernels.events import advance, change_speed, requeue
from allocopt.simulator.kernels.queue import tidy_queue
from allocopt.simulator.posed import LeaveCosts, PosedRelocation, WholeNodes
from allocopt.simulator.rules import Backfill, QueueKeys, Rules
from allocopt.simulator.schedule import HOP_COST, Schedule
from allocopt.simulator.scheduler import Blame, ListScheduler, SchedulerError, keys_of, name_of
from allocopt.simulator.state import ENDED, FREE, NOBODY, QUEUE, STARTED, State, listed, new_state
from allocopt.traces.workload import Workload

_NO_CLUSTER = "a relocation needs a cluster: on this machine, requests for each node are not known"


class Pool:
    """Room for jobs that ask for units of each resource.

    Parameters
    ----------
    state
        State of the simulation.
    platform
        The machine. If it has nodes, the allocator chooses the nodes of jobs.
    ids
        Ids of the jobs, for messages; None for their numbers.
    allocator
        Chooses the nodes; None if they are not tracked.
    rng
        Source of randomness, see `Room.rng`; None for a new one.
    """

    @classmethod
    def of(
        cls,
        workload: Workload,
        platform: Platform,
        built_in: ListScheduler | None,
        rules: Rules,
        seed: int,
        *,
        demands: Mapping[str, IntArray] | None = None,
        allocator: Allocator | None = None,
        is_watched: bool = False,
        downtimes: Sequence[Downtime] = (),
    ) -> "Pool":
        """Return the room before the first event; see `allocopt.simulator.rooms.room_of`."""
        if downtimes:
            raise UsageError("downtimes need a cluster: give the machine as a cluster")
        if platform.has_nodes:
            allocator = allocator or DepthFirst()
        elif allocator is not None:
            raise UsageError("an allocator needs a platform with nodes; this one is a pool of processors")
        rng = np.random.default_rng(seed)
        posed = workload, _requests(workload, platform, demands or {}), platform.total, rules
        if built_in is not None:
            state = new_state(
                *posed,
                built_in.backfill,
                keys_of(built_in.order, workload, rng),
                None if built_in.backfill_order is None else keys_of(built_in.backfill_order, workload, rng),
                compression=built_in.compression,
                track_running=is_watched,
                predicts=built_in.predicts,
            )
        else:
            # `View.shadow` and `View.backfillable` use EASY's rules, with the queue in the order of arrival.
            state = new_state(*posed, Backfill.EASY, QueueKeys.by_arrival(len(workload)))
        return cls(state, platform, workload.ids, allocator, rng)

    def __init__(
        self,
        state: State,
        platform: Platform,
        ids: IntArray | None = None,
        allocator: Allocator | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.rng = np.random.default_rng(0) if rng is None else rng
        self.state, self.platform, self.request = state, platform, read_only(state.request)
        self._ids = np.arange(len(state.request)) if ids is None else ids
        self.placement = None if allocator is None else HeldNodes(platform, self._ids)
        self.guests = Guests(state, self._ids) if allocator is None else None
        self._allocator = allocator
        self._run, self._pass = BUILT_IN.get(Backfill(state.rules["backfill"][0]), (run, list_pass))

    @property
    def tracks_nodes(self) -> bool:
        """Whether the nodes of each job are known."""
        return self.placement is not None

    @property
    def can_run_to_end(self) -> bool:
        """Whether `run` can simulate a built-in scheduler to the end: only without an allocator."""
        return self.placement is None

    @staticmethod
    def kernels(
        platform: Platform, built_in: ListScheduler | None, *, is_built_in_only: bool, changes_speed: bool
    ) -> tuple[Callable[..., Any], ...]:
        """Return the kernels that a simulation calls; see `allocopt.simulator.rooms.kernels_of`."""
        to_the_end, one_pass = run, list_pass
        if built_in is not None:
            to_the_end, one_pass = BUILT_IN.get(built_in.backfill, (run, list_pass))
            if is_built_in_only and not platform.has_nodes:
                return (to_the_end,)
        steps = (advance, change_speed) if changes_speed else (advance,)
        if built_in is not None:
            return (*steps, one_pass)
        return (*steps, next_backfillable, shadow_of, start_waiting, requeue)

    def as_pool(self) -> "Pool":
        """Return this object, after closing the gaps in its queue."""
        if self.state.clock["n_gone"][0]:
            tidy_queue(self.state)
        return self

    def run(self) -> None:
        """Simulate the built-in scheduler until no event is left."""
        run_in_slices(partial(self._run, self.state), 2**18)

    def advance(self, until: float) -> int:
        """Advance to the next scheduling point, but not beyond ``until``, in seconds."""
        happened = int(advance(self.state, until))
        # Ended jobs release their nodes. On a pool, an ended guest leaves its host, and an ended host leaves its guest.
        if self.placement is not None:
            for job in listed(self.state, ENDED, "n_ended").tolist():
                self.placement.release(job)
        elif self.guests is not None and self.guests.of:
            self.guests.leave(listed(self.state, ENDED, "n_ended").tolist())
        return happened

    def schedule(self) -> None:
        """Run a pass of the built-in scheduler."""
        # A long pass is interrupted now and then, so that Ctrl-C is handled between its parts.
        self._pass(self.state)
        while self.state.clock["unfinished"][0]:
            self._pass(self.state)

    def change_speed(self, job: int, speed: float) -> None:
        """Change the speed of a running job from now on."""
        change_speed(self.state, job, speed)

    @property
    def head(self) -> int | None:
        """The first waiting job; None if no job waits."""
        # Gaps are only behind the head.
        clock = self.state.clock
        return int(self.state.lists[QUEUE, clock["first"][0]]) if clock["n_queued"][0] else None

    def first(self, most: int) -> IntArray:
        """Return the first waiting jobs in the order of the queue, ``most`` at most."""
        clock = self.state.clock
        queue = self.state.lists[QUEUE, clock["first"][0] :][: clock["n_queued"][0] + clock["n_gone"][0]]
        # Search only as much of a long queue with gaps as needed.
        looked_at = most
        while True:
            found = queue[:looked_at]
            found = found[found >= 0]
            if len(found) >= most or looked_at >= len(queue):
                return found[:most]
            looked_at *= 2

    def fits(self, job: int) -> bool:
        """Whether a job fits now."""
        # For few numbers, comparing lists is faster than comparing arrays.
        return all(map(operator.le, self.state.request[job].tolist(), self.state.units[FREE].tolist()))

    def fitting(self, jobs: IntArray) -> BoolArray:
        """Return whether each of some jobs fits now."""
        fits = np.ones(len(jobs), dtype=np.bool_)
        # Loop over resources: most machines have only one, and a reduction over that axis is ten times slower.
        for resource, room in enumerate(self.state.units[FREE].tolist()):
            fits &= self.state.request[jobs, resource] <= room
        return fits

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job can start by the estimates, and the spare units then; see `View.shadow`."""
        spare = np.zeros(len(self.platform.resources), dtype=np.int64)
        return float(shadow_of(self.state, job, spare)), spare

    def backfillable(self, heads: Sequence[int]) -> Iterator[int]:
        """Yield waiting jobs that may start now without delaying the head, if one is given; see `View.backfillable`."""
        if len(heads) > 1:
            raise UsageError("this machine has one partition, so only one job can have a reservation")
        state, job, shadow, left = self.state, NOBODY, np.inf, np.zeros(len(self.platform.resources), dtype=np.int64)
        for head in heads:
            shadow, left = self.shadow(head)
        while True:
            job = int(next_backfillable(state, job, shadow, left))
            if job == NOBODY:
                return
            yield job
            if state.jobs["expected_end"][job] > shadow:  # false if the job was not started: then its end is NaN
                left -= state.request[job]

    def window(self, jobs: IntArray, name: str, hop_cost: float = HOP_COST, *, overtaking: bool = False) -> WholeNodes:
        """Return the problem of choosing nodes for waiting jobs, up to the first that does not fit; see `View.window`.

        Raises `UsageError` if jobs do not get whole nodes of a topology.
        """
        topology, asked = self.platform.topology, self.request[jobs, 0]
        if topology is None:
            raise UsageError("a window of jobs needs a machine whose topology is known, such as a fat tree of nodes")
        if self.platform.is_shared or len(self.platform.resources) > 1:
            raise UsageError("a window of jobs needs whole nodes; on this platform jobs share nodes")
        fit = np.cumsum(asked) <= self.free[0]
        if overtaking:
            left = int(self.free[0])
            for at, nodes in enumerate(asked.tolist()):
                fit[at] = nodes <= left
                left -= nodes if fit[at] else 0
        named = {
            int(job): Job(str(self._ids[job]), int(nodes)) for job, nodes in zip(jobs[fit], asked[fit], strict=True)
        }
        return WholeNodes.of(topology, self.idle_nodes, named, name, hop_cost)

    def relocation(self, gangs: Mapping[int, float], leaving: Mapping[int, LeaveCosts], name: str) -> PosedRelocation:
        """Raise `UsageError`, as relocations need a cluster."""
        raise UsageError(_NO_CLUSTER)

    def least_nodes(self, job: int) -> int:
        """Raise `UsageError`, as requests for each node need a cluster."""
        raise UsageError(_NO_CLUSTER)

    def start(self, job: int, nodes: IntArray | None = None, tasks: IntArray | None = None) -> bool:
        """Start a job, on given nodes if there are any; return False if it does not wait, or does not fit.

        Raises `InvalidSolutionError` if the nodes do not satisfy its request or are not free, or if tasks are given.
        """
        if tasks is not None:
            raise InvalidSolutionError(f"tasks are given for job {self._ids[job]}, but the machine is not a cluster")
        if not start_waiting(self.state, job):
            return False
        if nodes is None:
            return True
        if self.placement is None:
            raise InvalidSolutionError(f"nodes are chosen for job {self._ids[job]}, but the platform is a pool")
        share = self.placement.share_of(frozen_integers(nodes), self.request[job])
        self.placement.hold(job, share, self.request[job])
        return True

    def requeue(self, job: int) -> None:
        """Stop a running job and queue it again; raise `InvalidSolutionError` if it is a host or a guest."""
        if self.guests is not None and (
            job in self.guests.of or any(job == one.job for one in self.guests.of.values())
        ):
            raise InvalidSolutionError(f"job {self._ids[job]} shares units with another job, and cannot be requeued")
        requeue(self.state, job)
        # A job that has just started may not have nodes yet.
        if self.placement is not None and self.placement.shares[job] is not None:
            self.placement.release(job)
            self.placement.shares[job] = None

    def settle(self) -> None:
        """Place jobs that have just started without nodes; raise `SchedulerError` if the allocator fails."""
        placement, allocator = self.placement, self._allocator
        if placement is None or allocator is None:
            return
        started = listed(self.state, STARTED, "n_started").tolist()
        jobs = [job for job in started if placement.shares[job] is None]
        if not jobs:
            return
        name, now = name_of(allocator), float(self.state.clock["now"][0])
        with Blame(name, now):
            names = [str(self._ids[job]) for job in jobs]
            placed = allocator.place(names, self.request[jobs], placement.free.copy())
            shares = [Share(frozen_integers(nodes), frozen_integers(units)) for nodes, units in placed]
        if len(shares) != len(jobs):
            raise SchedulerError(f"{name} places {len(shares)} jobs, but {len(jobs)} have started")
        try:
            for job, share in zip(jobs, shares, strict=True):
                placement.hold(job, share, self.request[job])
        except InvalidSolutionError as error:
            raise SchedulerError(f"{name} at time {now:g} s: {error}") from None

    def held_by(self, job: int) -> Share:
        """Return the share of a started job; nodes must be tracked."""
        assert self.placement is not None
        return self.placement.held_by(job)

    def partition_of(self, job: int) -> str:
        """Return an empty name, as all jobs are in one queue."""
        return ""

    def asks(self, job: int) -> str:
        """Return the request of a job in words."""
        return self.in_words(self.request[job])

    def there_for(self, job: int) -> str:
        """Return the free units in words."""
        return f"{self.in_words(self.free)} free"

    def in_words(self, units: IntArray) -> str:
        """Return amounts of resources in words; 0 is shown only for the first resource."""
        named = list(zip(units.tolist(), self.platform.resources, strict=True))
        shown = (named[0], *(pair for pair in named[1:] if pair[0]))
        return ", ".join(f"{count} {name.removesuffix('s') if count == 1 else name}" for count, name in shown)

    @property
    def free(self) -> IntArray:
        """Idle units of each resource."""
        return read_only(self.state.units[FREE])

    @property
    def free_units(self) -> IntArray:
        """Idle units of each resource on each node; one row if nodes are not tracked."""
        return self.free[None, :] if self.placement is None else read_only(self.placement.free)

    @property
    def idle_nodes(self) -> IntArray:
        """Nodes that no job holds, in ascending order; empty if nodes are not tracked."""
        return np.empty(0, dtype=np.int64) if self.placement is None else self.placement.idle_nodes()

    def result(self, workload: Workload, release: FloatArray, start: FloatArray, end: FloatArray) -> Schedule:
        """Return the schedule of a finished simulation."""
        held_from = None
        if self.guests is not None and self.guests.ended_at:
            held_from = start.copy()
            held_from[list(self.guests.ended_at)] = list(self.guests.ended_at.values())
        nodes = None if self.placement is None else self.placement.nodes()
        return Schedule(workload, self.platform.size, release, start, end, nodes, self.platform.topology, held_from)


BUILT_IN = {Backfill.CONSERVATIVE: (run_conservative, conservative_pass)}
"""Kinds of backfilling with their own kernels: one that simulates to the end, and one for a single pass."""


def _requests(workload: Workload, platform: Platform, demands: Mapping[str, IntArray]) -> IntArray:
    if not len(workload):
        raise InvalidProblemError("workload", f"{workload.name} holds no jobs")
    unknown = sorted(set(demands) - set(platform.resources[1:]))
    if unknown:
        known = ", ".join(platform.resources[1:]) or "none"
        raise UsageError(f"demands for {unknown[0]!r}: this platform has no such resource; demands may be for {known}")
    columns = [workload.processors]
    for name in platform.resources[1:]:
        units = demands.get(name, np.zeros(len(workload), dtype=np.int64))
        if np.shape(units) != (len(workload),) or np.asarray(units).dtype.kind not in "iu":
            raise UsageError(f"demands for {name!r} must be {len(workload)} integers, one for each job")
        columns.append(frozen_integers(units))
    request = np.stack(columns, axis=1)
    for name, units, total in zip(platform.resources, request.T, platform.total, strict=True):
        if units.min() < 0 or units.max() > total:
            job = int(np.argmax((units < 0) | (units > total)))
            fault = f"asks for {units[job]} {name}, the machine has {total}; skip_oversized = true drops such jobs"
            raise InvalidProblemError(f"job {workload.ids[job]}", fault)
    return request
