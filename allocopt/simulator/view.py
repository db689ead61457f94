"""What a scheduler sees: the queue and the machine, not how long jobs will really run."""

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
    ``request`` holds what each job asks for of each resource, on all nodes together, shape ``(n, R)``. An exclusive job
    of a cluster counts for its least number of nodes, each as small as the smallest that it may get. ``guests`` holds
    the guest of each job that has one, by the number of the host. ``execution`` is the model of how fast jobs run, None
    for speed 1. ``rng`` is the scheduler's source of randomness.
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
        """Whether jobs may run on what others hold (`PlaceGuest`): in a pool."""
        return self._room.guests is not None

    @property
    def now(self) -> float:
        """Time in seconds."""
        return float(self._state.clock["now"][0])

    @property
    def queue(self) -> IntArray:
        """All waiting jobs in the order of the queue, a copy; `head`, `first` and `backfillable` are faster."""
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
        """Running jobs by the end that their estimates promise, the earliest first."""
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
        """Nodes that no job holds, in ascending order; empty where nodes are not tracked."""
        return self._room.idle_nodes

    @property
    def free_units(self) -> IntArray:
        """Idle units of each resource on each node, shape ``(nodes, R)``; one row where nodes are not tracked."""
        return self._room.free_units

    @property
    def start(self) -> FloatArray:
        """When each job started, in seconds; NaN before."""
        return read_only(self._state.jobs["start"])

    @property
    def release(self) -> FloatArray:
        """When each job joined the queue, in seconds; NaN before."""
        return read_only(self._state.jobs["release"])

    @property
    def end(self) -> FloatArray:
        """When each job ended, in seconds, a copy; NaN before."""
        ends = self._state.jobs["end"]
        ended: FloatArray = np.where(ends <= self.now, ends, np.nan)
        return ended

    @property
    def expected_end(self) -> FloatArray:
        """When each job is expected to end, by its estimate or its predicted run time; NaN before it has started."""
        return read_only(self._state.jobs["expected_end"])

    def planned_run(self, job: int) -> float:
        """Return how many seconds a job that waits is planned to run: its estimate, or its predicted run time."""
        estimate = float(self.estimate[job])
        scores, user = self._state.scores, NOBODY
        if self._state.rules["predicts"][0]:
            user = int(scores.jobs[job, USER])
        return estimate if user == NOBODY else run_time_after(scores.history[user], estimate)

    @property
    def reserved(self) -> FloatArray:
        """Start time that each job was last promised, in seconds; infinite without a promise."""
        return read_only(self._state.jobs["reserved"])

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job can start, by the estimates of the running jobs.

        Returns the time in seconds, and the spare units of each resource, shape ``(R,)``: those that are idle beside
        the job then. An estimated end that has passed counts as now. Spare units are negative if the job asks for more
        than there will be.
        """
        if self.fits(job):
            return self.now, self.free - self.request[job]
        return self._room.shadow(job)

    def backfillable(self, *heads: int) -> Iterator[int]:
        """Yield the waiting jobs, in the order of the queue, that may start now without delaying the heads.

        Heads are waiting jobs, at most one of each partition; a machine without partitions is one partition. A job is
        yielded if it fits now, and for each head either ends by its estimate before the head can start (see `shadow`),
        or leaves free what the head will need. A job that is started takes what it needs from those after it. Without
        heads all jobs that fit are yielded. Raises `UsageError` if two heads are of one partition.

        Only jobs that may fit are looked at, so that a long queue takes little longer than a short one. This is for
        schedulers written in Python, whose queue is in the order of arrival.
        """
        self._check(*heads)
        return self._room.backfillable(heads)

    def window(self, jobs: IntArray, name: str, hop_cost: float = HOP_COST, *, overtaking: bool = False) -> PosedWindow:
        """Pose the choice of nodes for those of some waiting jobs, by priority, that fit together.

        These are the first ones of each partition, up to one that does not fit; a machine without partitions is one
        partition. If jobs may be overtaken, one that does not fit is left out, and later ones may follow. Raises
        `UsageError` unless the machine is a cluster, or whole nodes of a topology.
        """
        jobs = np.asarray(jobs, dtype=np.int64)
        self._check(int(jobs.min(initial=0)), int(jobs.max(initial=0)))
        return self._room.window(jobs, name, hop_cost, overtaking=overtaking)

    def relocation(self, gangs: Mapping[int, float], leaving: Mapping[int, LeaveCosts], name: str) -> PosedRelocation:
        """Pose which running jobs stop or move, so that waiting ones can start now.

        Parameters
        ----------
        gangs
            What it costs if each of some waiting jobs waits on.
        leaving
            What it costs to stop or move each of some running jobs; the others stay.
        name
            Name of the problem.

        Raises
        ------
        UsageError
            If the machine is no cluster.
        """
        self._check(*gangs, *leaving)
        return self._room.relocation(gangs, leaving, name)

    def least_nodes(self, job: int) -> int:
        """Return the fewest nodes that a job asks for. Raises `UsageError` if the machine is no cluster."""
        self._check(job)
        return self._room.least_nodes(job)

    @property
    def requeues(self) -> IntArray:
        """How often each job was stopped and joined the queue again, shape ``(n,)``."""
        return read_only(self._state.jobs["requeues"])

    @property
    def as_pool(self) -> PoolRoom:
        """The machine as a pool of units, for agents that only know pools.

        A `Platform` is returned as it is. In place of a cluster there is a pool of as many units as it has cores, in
        which a job counts for its share of the resource that it asks for most of, rounded up. The waiting jobs stand
        in adjacent columns of the queue of ``state``.
        """
        return self._room.as_pool()

    def waited(self, job: int) -> float:
        """Seconds for which a job has been waiting."""
        return self.now - float(self._state.jobs["release"][job])

    def fits(self, job: int) -> bool:
        """Whether what a job asks for is free."""
        self._check(job)
        return self._room.fits(job)

    def fitting(self, jobs: IntArray) -> BoolArray:
        """Whether what each of some jobs asks for is free, shape ``(k,)``."""
        jobs = np.asarray(jobs, dtype=np.int64)
        self._check(int(jobs.min(initial=0)), int(jobs.max(initial=0)))
        return self._room.fitting(jobs)

    def _check(self, *jobs: int) -> None:
        """Raise `IndexError` for a number that no job has: kernels read whatever stands there."""
        for job in jobs:
            if not 0 <= job < len(self.ids):
                raise IndexError(f"there is no job number {job}: {len(self.ids)} jobs are numbered from 0")

    def name_of(self, job: int) -> str:
        """Return the name of a job in its trace, or its id if it has none."""
        return str(self._names[job] or self.ids[job])

    def partition_of(self, job: int) -> str:
        """Return the name of the partition in whose queue a job stands; empty on a machine without partitions."""
        self._check(job)
        return self._room.partition_of(job)

    def asks(self, job: int) -> str:
        """Say what a job asks for, for people."""
        self._check(job)
        return self._room.asks(job)

    def wants(self, job: int) -> str:
        """Say what a job asks for, and how much of it is free now, for people."""
        self._check(job)
        return f"asks for {self._room.asks(job)} with {self._room.there_for(job)}"

    def in_words(self, units: IntArray) -> str:
        """Write amounts of each resource of the platform, shape ``(R,)``, for people; amounts of 0 may be left out."""
        return self._room.in_words(units)
