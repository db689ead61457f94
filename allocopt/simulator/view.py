"""The view of a scheduler: the queue and the machine, but not the real run times of jobs."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray, read_only
from allocopt.simulator.execution import ExecutionModel
from allocopt.simulator.held_nodes import Guest
from allocopt.simulator.kernels.scoring import run_time_after
from allocopt.simulator.posed import LeaveCosts, PosedRelocation, PosedWindow
from allocopt.simulator.room import PoolRoom, Room
from allocopt.simulator.schedule import HOP_COST
from allocopt.simulator.scoring import USER
from allocopt.simulator.state import NOBODY, RUNNING, listed
from allocopt.traces.workload import Workload

_NO_GUESTS: Mapping[int, Guest] = MappingProxyType({})


class View:
    """The machine at the present time, read only; jobs are numbered as in their workload.

    ``platform`` is the machine with its resources; a cluster counts cores and GPUs in thousandths, memory in MiB.
    ``request`` has each job's request for each resource, over all nodes, shape ``(n, R)``. An exclusive job of a
    cluster counts with its least number of nodes, each as small as the smallest node that it may get. ``guests`` has
    the guest of each host, by the number of the host. ``execution`` is the execution model, None for speed 1. ``rng``
    is the scheduler's source of randomness.
    """

    def __init__(
        self,
        workload: Workload,
        room: Room,
        execution: ExecutionModel | None = None,
    ) -> None:
        self._room, self._state, self.rng = room, room.state, room.rng
        self.platform, self.execution = room.platform, execution
        self.guests = _NO_GUESTS if room.guests is None else room.guests.of
        self.ids, self.users, self.processors = workload.ids, workload.users, workload.processors
        self.submit, self.estimate, self.request = workload.submit, workload.estimate, room.request
        self._names = workload.names

    @property
    def takes_guests(self) -> bool:
        """Whether jobs may run on units of other jobs (`PlaceGuest`); true for a pool."""
        return self._room.guests is not None

    @property
    def now(self) -> float:
        """Time in seconds."""
        return float(self._state.clock["now"][0])

    @property
    def queue(self) -> IntArray:
        """Copy of all waiting jobs in the order of the queue; `head`, `first` and `backfillable` are faster."""
        return self.first(len(self.ids))

    @property
    def head(self) -> int | None:
        """The first waiting job; None if no job waits."""
        return self._room.head

    def first(self, most: int) -> IntArray:
        """Return the first waiting jobs in the order of the queue, ``most`` at most."""
        return self._room.first(most)

    @property
    def running(self) -> IntArray:
        """Running jobs by their expected ends, the earliest first."""
        return listed(self._state, RUNNING, "n_running")

    @property
    def free(self) -> IntArray:
        """Idle units of each resource, shape ``(R,)``."""
        return self._room.free

    @property
    def free_processors(self) -> int:
        """Idle units of the first resource: processors, nodes, cores, or on a cluster thousandths of cores."""
        return int(self._room.free[0])

    @property
    def idle_nodes(self) -> IntArray:
        """Nodes that no job holds, in ascending order; empty if nodes are not tracked."""
        return self._room.idle_nodes

    @property
    def free_units(self) -> IntArray:
        """Idle units of each resource on each node, shape ``(nodes, R)``; one row if nodes are not tracked."""
        return self._room.free_units

    @property
    def start(self) -> FloatArray:
        """Start of each job, in seconds; NaN if it has not started."""
        return read_only(self._state.jobs["start"])

    @property
    def release(self) -> FloatArray:
        """Time at which each job joined the queue, in seconds; NaN before."""
        return read_only(self._state.jobs["release"])

    @property
    def end(self) -> FloatArray:
        """Copy of the end of each job, in seconds; NaN if it has not ended."""
        ends = self._state.jobs["end"]
        ended: FloatArray = np.where(ends <= self.now, ends, np.nan)
        return ended

    @property
    def expected_end(self) -> FloatArray:
        """Expected end of each job, by its estimate or its predicted run time; NaN if it has not started."""
        return read_only(self._state.jobs["expected_end"])

    def planned_run(self, job: int) -> float:
        """Return the planned run time of a waiting job in seconds: its estimate, or its predicted run time."""
        estimate = float(self.estimate[job])
        scores, user = self._state.scores, NOBODY
        if self._state.rules["predicts"][0]:
            user = int(scores.jobs[job, USER])
        return estimate if user == NOBODY else run_time_after(scores.history[user], estimate)

    @property
    def reserved(self) -> FloatArray:
        """Start time of each job's last reservation, in seconds; infinite without one."""
        return read_only(self._state.jobs["reserved"])

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job can start, by the estimates of the running jobs.

        Returns the time in seconds, and the spare units of each resource, shape ``(R,)``: those that are idle then in
        addition to the job's request. An estimated end that has passed counts as now. Spare units are negative if the
        job requests more than there will be.
        """
        if self.fits(job):
            return self.now, self.free - self.request[job]
        return self._room.shadow(job)

    def backfillable(self, *heads: int) -> Iterator[int]:
        """Yield the waiting jobs, in the order of the queue, that may start now without delaying the heads.

        Heads are waiting jobs, at most one of each partition; a machine without partitions is one partition. A job is
        yielded if it fits now, and for each head either ends by its estimate before the head can start (see `shadow`),
        or leaves enough units for the head. If a yielded job is started, its units are no longer available to later
        jobs. Without heads all jobs that fit are yielded. Raises `UsageError` if two heads are of one partition.

        Only jobs that may fit are examined, so that a long queue takes little longer than a short one. Meant for
        schedulers written in Python, whose queue is in the order of arrival.
        """
        self._check(*heads)
        return self._room.backfillable(heads)

    def window(self, jobs: IntArray, name: str, hop_cost: float = HOP_COST, *, overtaking: bool = False) -> PosedWindow:
        """Return the problem of choosing nodes for those jobs that fit together now.

        ``jobs`` are waiting jobs, highest priority first. The jobs that fit together are the first ones of each
        partition, up to one that does not fit; a machine without partitions is one partition. With ``overtaking``, jobs
        that do not fit are left out, and later ones are included. Raises `UsageError` if the machine is neither a
        cluster nor whole nodes of a topology.
        """
        jobs = np.asarray(jobs, dtype=np.int64)
        self._check(int(jobs.min(initial=0)), int(jobs.max(initial=0)))
        return self._room.window(jobs, name, hop_cost, overtaking=overtaking)

    def relocation(self, gangs: Mapping[int, float], leaving: Mapping[int, LeaveCosts], name: str) -> PosedRelocation:
        """Return the problem of stopping or moving running jobs so that waiting jobs can start now.

        Parameters
        ----------
        gangs
            Waiting jobs, each with the cost of its further wait.
        leaving
            Running jobs that may stop or move, each with the costs; the others stay.
        name
            Name of the problem.

        Raises
        ------
        UsageError
            If the machine is not a cluster.
        """
        self._check(*gangs, *leaving)
        return self._room.relocation(gangs, leaving, name)

    def least_nodes(self, job: int) -> int:
        """Return the fewest nodes that a job requests; raise `UsageError` if the machine is not a cluster."""
        self._check(job)
        return self._room.least_nodes(job)

    @property
    def requeues(self) -> IntArray:
        """How often each job was requeued, shape ``(n,)``."""
        return read_only(self._state.jobs["requeues"])

    @property
    def as_pool(self) -> PoolRoom:
        """The machine as a pool of units, for agents that only know pools.

        A `Platform` is returned as it is. A cluster is replaced by a pool with as many units as it has cores. In it, a
        job requests its largest share over all resources, rounded up to units. The waiting jobs are in adjacent
        columns of the queue of ``state``.
        """
        return self._room.as_pool()

    def waited(self, job: int) -> float:
        """Return the seconds that a job has waited so far."""
        return self.now - float(self._state.jobs["release"][job])

    def fits(self, job: int) -> bool:
        """Whether a job fits now."""
        self._check(job)
        return self._room.fits(job)

    def fitting(self, jobs: IntArray) -> BoolArray:
        """Return whether each of some jobs fits now, shape ``(k,)``."""
        jobs = np.asarray(jobs, dtype=np.int64)
        self._check(int(jobs.min(initial=0)), int(jobs.max(initial=0)))
        return self._room.fitting(jobs)

    def _check(self, *jobs: int) -> None:
        """Raise `IndexError` for a number that no job has, because kernels do not check bounds."""
        for job in jobs:
            if not 0 <= job < len(self.ids):
                raise IndexError(f"there is no job number {job}: jobs are numbered from 0 to {len(self.ids) - 1}")

    def name_of(self, job: int) -> str:
        """Return the name of a job in its trace, or its id if it has none."""
        return str(self._names[job] or self.ids[job])

    def partition_of(self, job: int) -> str:
        """Return the name of the partition in whose queue a job is; empty on a machine without partitions."""
        self._check(job)
        return self._room.partition_of(job)

    def asks(self, job: int) -> str:
        """Return the request of a job in words."""
        self._check(job)
        return self._room.asks(job)

    def wants(self, job: int) -> str:
        """Return the request of a job, and how much of it is free now, in words."""
        self._check(job)
        return f"asks for {self._room.asks(job)} with {self._room.there_for(job)}"

    def in_words(self, units: IntArray) -> str:
        """Return amounts of each resource, shape ``(R,)``, in words; amounts of 0 may be left out."""
        return self._room.in_words(units)
