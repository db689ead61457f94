"""A schedule as figures need it: when every job was submitted, started and ended, and on which nodes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Topology
from allocopt.simulator.metrics import MeasuredJobs
from allocopt.simulator.schedule import JobTimes, Schedule

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """A schedule on a machine of a size; arrays have shape ``(n,)``, times are in seconds.

    Nodes of the jobs and the topology are None where they are not known; without names nodes have numbers.
    """

    names: Sequence[str]
    submit: FloatArray
    start: FloatArray
    end: FloatArray
    processors: IntArray | FloatArray
    size: int
    nodes: tuple[IntArray, ...] | None = None
    topology: Topology | None = None
    node_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, schedule: Schedule, node_names: tuple[str, ...] = ()) -> "Timeline":
        """Make it of a schedule."""
        names = [str(job) for job in schedule.workload.ids.tolist()]
        held, times = next(iter(schedule.used.values()))[0], (schedule.release, schedule.start, schedule.end)
        return cls(names, *times, held, schedule.processors, schedule.nodes, schedule.topology, node_names)

    @property
    def rows(self) -> int:
        """Number of nodes, or of processors where nodes are not known."""
        return self.size if self.nodes is None or self.topology is None else self.topology.size

    @property
    def waits_s(self) -> FloatArray:
        """Seconds from submission to start."""
        return self.start - self.submit

    @property
    def measured(self) -> MeasuredJobs:
        """What its jobs experienced, to be measured."""
        times = JobTimes.of(self.waits_s, self.end - self.start)
        return MeasuredJobs(self.processors, times, np.zeros(len(self.start), dtype=np.bool_), None)

    @property
    def makespan_s(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.end.max() - self.submit.min())

    @property
    def utilization(self) -> float:
        """Share of the machine's processor-seconds that jobs held."""
        # A schedule in which nothing lasts has no capacity to divide by.
        held = float(((self.end - self.start) * self.processors).sum())
        return held / max(self.size * self.makespan_s, 1e-9)

    def held(self, edges: FloatArray) -> FloatArray:
        """Mean number of processors held between edges of time, shape ``(len(edges) - 1,)``."""
        return _mean_between(edges, self.start, self.end, self.processors.astype(float))

    def waiting(self, edges: FloatArray) -> FloatArray:
        """Mean number of jobs that wait between edges of time."""
        return _mean_between(edges, self.submit, self.start, np.ones(len(self.start)))

    def busiest(self) -> float:
        """Return the first instant at which most processors are held."""
        times = np.concatenate((self.start, self.end))
        change = np.concatenate((self.processors, -self.processors))
        # Ends before starts at the same instant.
        order = np.lexsort((change, times))
        return float(times[order][int(np.argmax(np.cumsum(change[order])))])

    def running(self, instant: float) -> IntArray:
        """Return the jobs that run at an instant."""
        return np.flatnonzero((self.start <= instant) & (instant < self.end))

    def places(self) -> IntArray:
        """Return where every node stands from top to bottom: nodes of a switch together."""
        if self.topology is None:
            return np.arange(self.rows)
        order = np.lexsort((np.arange(self.rows), *self.topology.groups_of(np.arange(self.rows))))
        places = np.empty(self.rows, dtype=np.int64)
        places[order] = np.arange(self.rows)
        return places

    def rectangles(self) -> list[tuple[int, int, int]]:
        """Return job, first place and place behind the last of every run of neighbouring places that a job holds."""
        if self.nodes is not None:
            places = self.places()
            return [(job, *run) for job, nodes in enumerate(self.nodes) for run in _runs(np.sort(places[nodes]))]
        # Which processors a job had is not known: it takes the lowest that are free when it starts.
        free_from = np.full(self.size, -np.inf)
        rectangles = []
        for job in np.lexsort((self.end, self.start)).tolist():
            free = np.flatnonzero(free_from <= self.start[job])[: self.processors[job]]
            free_from[free] = self.end[job]
            rectangles += [(job, *run) for run in _runs(free)]
        return rectangles

    @staticmethod
    def shared_bins(timelines: Sequence["Timeline"], bins: int) -> FloatArray:
        """Return the edges of equal spans of time over all schedules, shape ``(bins + 1,)``."""
        first = min(float(timeline.submit.min()) for timeline in timelines)
        last = max(float(timeline.end.max()) for timeline in timelines)
        return np.linspace(first, max(last, first + 1.0), bins + 1)

    @staticmethod
    def distinct(named: Iterable[tuple[Name, "Timeline"]]) -> "list[tuple[list[Name], Timeline]]":
        """Bring schedules together in which all jobs start and end at the same times."""
        groups: dict[tuple[bytes, bytes], tuple[list[Name], Timeline]] = {}
        for name, line in named:
            names, _ = groups.setdefault((line.start.tobytes(), line.end.tobytes()), ([], line))
            names.append(name)
        return list(groups.values())


def _runs(places: IntArray) -> list[tuple[int, int]]:
    """First place and place behind the last of every run of neighbouring places."""
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) > 1)
    firsts, lasts = np.append(places[0], places[breaks + 1]), np.append(places[breaks], places[-1])
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _mean_between(edges: FloatArray, first: FloatArray, last: FloatArray, weights: FloatArray) -> FloatArray:
    """Mean between edges of the sum of the weights of spans ``[first, last)``."""
    # Each span adds its weight at its first instant, and takes it back at its last: the integral bends there alone.
    # Where there is no span, it stands still from the first edge on.
    times, changes = np.concatenate((edges[:1], first, last)), np.concatenate(([0.0], weights, -weights))
    order = np.argsort(times, kind="stable")
    sums = np.cumsum(changes[order])[:-1] * np.diff(times[order])
    integral = np.interp(edges, times[order], np.concatenate(([0.0], np.cumsum(sums))))
    mean: FloatArray = np.diff(integral) / np.diff(edges)
    return np.maximum(mean, 0.0)
