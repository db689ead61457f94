"""What a scheduler sees: the queue and the machine, not how long jobs will really run."""

import operator
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.platform import Platform
from allocopt.simulator.execution import ExecutionModel
from allocopt.simulator.kernels.backfilling import next_backfillable, shadow_of
from allocopt.simulator.kernels.queue import tidy_queue
from allocopt.simulator.placement import Guest, Placement
from allocopt.simulator.state import FREE, NOBODY, QUEUE, RUNNING, State
from allocopt.traces.workload import Workload

_NO_GUESTS: Mapping[int, Guest] = MappingProxyType({})


class View:
    """The cluster at the present time, read only; jobs are numbered as in their workload.

    ``guests`` tells the guest of each job that has one, by the number of the job, ``execution`` how fast jobs run, None
    for speed 1, and ``rng`` is the scheduler's source of randomness.
    """

    def __init__(
        self,
        workload: Workload,
        platform: Platform,
        state: State,
        placement: Placement | None,  # which job holds which nodes; None where nodes are not tracked
        guests: Mapping[int, Guest] = _NO_GUESTS,
        execution: ExecutionModel | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._state, self._placement = state, placement
        self.rng = np.random.default_rng(0) if rng is None else rng
        self.platform, self.guests, self.execution = platform, guests, execution
        self.ids, self.users, self.processors = workload.ids, workload.users, workload.processors
        self.submit, self.estimate, self.request = workload.submit, workload.estimate, _read_only(state.request)

    @property
    def now(self) -> float:
        """Time in seconds."""
        return float(self._state.clock["now"][0])

    @property
    def queue(self) -> IntArray:
        """Waiting jobs in the order of the queue, a copy: `head`, `first` and `backfillable` show less of it sooner."""
        return self.first(len(self.ids))

    @property
    def head(self) -> int | None:
        """The first waiting job; None where nobody waits."""
        clock = self._state.clock
        return int(self._state.lists[QUEUE, clock["first"][0]]) if clock["n_queued"][0] else None

    def first(self, most: int) -> IntArray:
        """Return the first waiting jobs, so many at most, in the order of the queue."""
        clock = self._state.clock
        first, n_queued, n_gone = clock["first"][0], clock["n_queued"][0], clock["n_gone"][0]
        if not n_gone:
            return self._state.lists[QUEUE, first : first + min(n_queued, most)].copy()
        queue = self._state.lists[QUEUE, first : first + n_queued + n_gone]
        return queue[queue >= 0][:most]

    @property
    def running(self) -> IntArray:
        """Running jobs by the end that their estimates promise, first things first."""
        return self._state.lists[RUNNING, : self._state.clock["n_running"][0]].copy()

    @property
    def free(self) -> IntArray:
        """Idle units of each resource, shape ``(R,)``."""
        return _read_only(self._state.units[FREE])

    @property
    def free_processors(self) -> int:
        """Idle units of the first resource: processors, nodes or cores."""
        return int(self._state.units[FREE, 0])

    @property
    def idle_nodes(self) -> IntArray:
        """Nodes that no job holds, rising; empty where nodes are not tracked."""
        return np.empty(0, dtype=np.int64) if self._placement is None else self._placement.idle_nodes()

    @property
    def free_units(self) -> IntArray:
        """Idle units of each resource on each node, shape ``(nodes, R)``; one row where nodes are not tracked."""
        return self.free[None, :] if self._placement is None else _read_only(self._placement.free)

    @property
    def start(self) -> FloatArray:
        """When each job started, in seconds; NaN before."""
        return _read_only(self._state.jobs["start"])

    @property
    def expected_end(self) -> FloatArray:
        """When each job ends by its estimate, in seconds; NaN before it has started."""
        return _read_only(self._state.jobs["expected_end"])

    @property
    def reserved(self) -> FloatArray:
        """When each job was last promised to start, in seconds; infinite where it was not."""
        return _read_only(self._state.jobs["reserved"])

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job can start by the estimates of those that run, and what is spare then.

        The time is in seconds; an estimated end that has passed counts as now. Spare are the units of each resource
        that are idle beside the job from then on, shape ``(R,)``; negative where it asks for more than there will be.
        """
        spare = np.zeros(len(self.platform.resources), dtype=np.int64)
        return float(shadow_of(self._state, job, spare)), spare

    def backfillable(self, shadow: float = np.inf, spare: IntArray | None = None) -> Iterator[int]:
        """Yield the waiting jobs, in the order of the queue, that may start now and delay nobody who starts at a time.

        Such a job fits what is free, and either ends by ``shadow`` (in seconds, see `shadow`) by its estimate or fits
        ``spare``, the units that are idle beside the one that starts then, shape ``(R,)``, None for none; what it takes
        of that is gone for those after it once it has started. Only jobs that may fit are looked at, so that a long
        queue takes little longer than a short one. For schedulers written in Python.
        """
        state, job = self._state, NOBODY
        left = np.zeros(len(self.platform.resources), dtype=np.int64) if spare is None else np.array(spare)
        while True:
            job = int(next_backfillable(state, job, shadow, left))
            if job == NOBODY:
                return
            yield job
            if not np.isnan(state.jobs["start"][job]) and self.now + self.estimate[job] > shadow:
                left -= state.request[job]

    def kernel_state(self) -> State:
        """Return the simulation behind the view, its waiting jobs side by side, for kernels that read it."""
        if self._state.clock["n_gone"][0]:
            tidy_queue(self._state)
        return self._state

    def waited(self, job: int) -> float:
        """Seconds for which a job has been waiting."""
        return self.now - float(self._state.jobs["release"][job])

    def fits(self, job: int) -> bool:
        """Whether what a job asks for is free."""
        # Of so few numbers lists are compared faster than arrays.
        return all(map(operator.le, self._state.request[job].tolist(), self._state.units[FREE].tolist()))

    def fitting(self, jobs: IntArray, units: IntArray | None = None) -> BoolArray:
        """Whether what each of some jobs asks for is free, or within other ``units``, shape ``(R,)``."""
        there = self._state.units[FREE] if units is None else units
        fits = np.ones(len(jobs), dtype=np.bool_)
        # One resource after the other: most machines have one, and a reduction over that axis takes ten times as long.
        for resource, room in enumerate(there.tolist()):
            fits &= self._state.request[jobs, resource] <= room
        return fits


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    view = values.view()
    view.flags.writeable = False
    return view
