"""What a scheduler sees: the queue and the machine, not how long jobs will really run."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.platform import Platform
from allocopt.simulator.guests import Guest
from allocopt.simulator.placement import Placement
from allocopt.simulator.state import FREE, QUEUE, RUNNING, State
from allocopt.traces.workload import Workload

NO_GUESTS: Mapping[int, Guest] = MappingProxyType({})


class View:
    """The cluster at the present time, read only; jobs are numbered as in their workload.

    Parameters
    ----------
    workload
        The jobs.
    platform
        The machine.
    state
        The simulation.
    placement
        Which job holds which nodes; None where nodes are not tracked.
    guests
        The guest of each job that has one, by the number of the job.
    """

    __slots__ = (
        "_placement",
        "_state",
        "estimate",
        "guests",
        "ids",
        "platform",
        "processors",
        "request",
        "submit",
        "users",
    )

    def __init__(
        self,
        workload: Workload,
        platform: Platform,
        state: State,
        placement: Placement | None,
        guests: Mapping[int, Guest] = NO_GUESTS,
    ) -> None:
        self._state = state
        self.guests = guests
        self._placement = placement
        self.platform = platform
        self.ids = workload.ids
        self.submit = workload.submit
        self.estimate = workload.estimate
        self.processors = workload.processors
        self.users = workload.users
        self.request = _read_only(state.request)

    @property
    def now(self) -> float:
        """Time in seconds."""
        return float(self._state.clock["now"][0])

    @property
    def queue(self) -> IntArray:
        """Waiting jobs in the order of the queue: for a scheduler of one's own, that in which they joined it."""
        first, n_queued = self._state.clock["first"][0], self._state.clock["n_queued"][0]
        if not self._state.least.size:
            return self._state.lists[QUEUE, first : first + n_queued].copy()
        queue = self._state.lists[QUEUE, first : first + n_queued + self._state.clock["n_gone"][0]]
        return queue[queue >= 0]

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

    def waited(self, job: int) -> float:
        """Seconds for which a job has been waiting."""
        return self.now - float(self._state.jobs["release"][job])

    def fits(self, job: int) -> bool:
        """Whether what a job asks for is free."""
        return bool((self._state.request[job] <= self._state.units[FREE]).all())

    def fitting(self, jobs: IntArray, units: IntArray | None = None) -> BoolArray:
        """Whether what each of some jobs asks for is free.

        Parameters
        ----------
        jobs
            Numbers of jobs.
        units
            What there is of each resource, shape ``(R,)``; None for what is free.

        Returns
        -------
        BoolArray
            Shape ``(jobs,)``.
        """
        there = self._state.units[FREE] if units is None else units
        fits = np.ones(len(jobs), dtype=np.bool_)
        # One resource after the other: most machines have one, and a reduction over that axis takes ten times as long.
        for resource, room in enumerate(there.tolist()):
            fits &= self._state.request[jobs, resource] <= room
        return fits


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to."""
    view = values.view()
    view.flags.writeable = False
    return view


def state_of(view: View) -> State:
    """Return the simulation behind a view, for kernels that describe it; it must not be changed."""
    return view._state
