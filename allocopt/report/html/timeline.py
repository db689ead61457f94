"""A schedule in the form that figures need: submission, start, end and nodes of every job."""

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
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
    """A schedule on a machine of ``size`` processors; arrays have shape ``(n,)``, times are in seconds.

    Nodes of the jobs and the topology are None if unknown. If ``node_names`` is empty, nodes are shown by number.
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
        """Return the timeline of a schedule."""
        names = [str(job) for job in schedule.workload.ids.tolist()]
        held, times = next(iter(schedule.used.values()))[0], (schedule.release, schedule.start, schedule.end)
        return cls(names, *times, held, schedule.processors, schedule.nodes, schedule.topology, node_names)

    @property
    def rows(self) -> int:
        """Number of nodes, or of processors if nodes are not known."""
        return self.size if self.nodes is None or self.topology is None else self.topology.size

    @property
    def waits_s(self) -> FloatArray:
        """Seconds from submission to start."""
        return self.start - self.submit

    @property
    def measured(self) -> MeasuredJobs:
        """Jobs with their times, from which statistics are computed."""
        times = JobTimes.of(self.waits_s, self.end - self.start)
        return MeasuredJobs(self.processors, times, np.zeros(len(self.start), dtype=np.bool_), None)

    @property
    def makespan_s(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.end.max() - self.submit.min())

    @property
    def utilization(self) -> float:
        """Share of the machine's processor-seconds that jobs held."""
        # If no job takes any time, the makespan is 0: do not divide by 0.
        held = float(((self.end - self.start) * self.processors).sum())
        return held / max(self.size * self.makespan_s, 1e-9)

    def held(self, edges: FloatArray) -> FloatArray:
        """Return the mean number of processors in use between edges of time, shape ``(len(edges) - 1,)``."""
        return _mean_between(edges, self.start, self.end, self.processors.astype(float))

    def waiting(self, edges: FloatArray) -> FloatArray:
        """Return the mean number of waiting jobs between edges of time."""
        return _mean_between(edges, self.submit, self.start, np.ones(len(self.start)))

    def busiest(self) -> float:
        """Return the first instant at which most processors are held."""
        times = np.concatenate((self.start, self.end))
        change = np.concatenate((self.processors, -self.processors))
        # Negative changes first: at one instant, ends come before starts.
        order = np.lexsort((change, times))
        return float(times[order][int(np.argmax(np.cumsum(change[order])))])

    def running(self, instant: float) -> IntArray:
        """Return the jobs that run at an instant."""
        return np.flatnonzero((self.start <= instant) & (instant < self.end))

    def places(self) -> IntArray:
        """Return the position of every node from top to bottom; nodes of a switch are adjacent."""
        if self.topology is None:
            return np.arange(self.rows)
        order = np.lexsort((np.arange(self.rows), *self.topology.groups_of(np.arange(self.rows))))
        places = np.empty(self.rows, dtype=np.int64)
        places[order] = np.arange(self.rows)
        return places

    def rectangles(self) -> list[tuple[int, int, int]]:
        """Return (job, first place, last place + 1) for every run of adjacent places that a job holds."""
        if self.nodes is not None:
            places = self.places()
            return [(job, *run) for job, nodes in enumerate(self.nodes) for run in _runs(np.sort(places[nodes]))]
        return list(packed(self.start, self.end, self.processors, self.size))

    @staticmethod
    def shared_bins(timelines: Sequence["Timeline"], bins: int) -> FloatArray:
        """Return the edges of equal intervals of time over all schedules, shape ``(bins + 1,)``."""
        first = min(float(timeline.submit.min()) for timeline in timelines)
        last = max(float(timeline.end.max()) for timeline in timelines)
        return np.linspace(first, max(last, first + 1.0), bins + 1)

    @staticmethod
    def distinct(named: Iterable[tuple[Name, "Timeline"]]) -> "list[tuple[list[Name], Timeline]]":
        """Return the different schedules, each with the names of all that have the same starts and ends."""
        groups: dict[tuple[bytes, bytes], tuple[list[Name], Timeline]] = {}
        for name, line in named:
            names, _ = groups.setdefault((line.start.tobytes(), line.end.tobytes()), ([], line))
            names.append(name)
        return list(groups.values())


def packed(
    start: FloatArray, end: FloatArray, units: IntArray | FloatArray, most: float = math.inf
) -> Iterator[tuple[int, int, int]]:
    """Yield (job, first unit, last unit + 1) for every run of adjacent units of jobs whose own units are not known.

    Jobs get the lowest units, below ``most``, that are free when they start. Units beyond ``most`` are not drawn.
    """
    free: list[tuple[float, float]] = [(0, most)]  # sorted runs that do not touch
    ends: list[tuple[float, int, list[tuple[float, float]]]] = []
    for job in np.lexsort((end, start)).tolist():
        while ends and ends[0][0] <= start[job]:
            for run in heapq.heappop(ends)[2]:
                _release(free, run)
        left, held = math.ceil(units[job]), []
        while left > 0 and free:
            first, last = free[0]
            taken = min(left, last - first)
            held.append((first, first + taken))
            left -= taken
            free[:1] = [(first + taken, last)] if first + taken < last else []
        yield from ((job, int(first), int(last)) for first, last in held)
        heapq.heappush(ends, (float(end[job]), job, held))


def _release(free: list[tuple[float, float]], run: tuple[float, float]) -> None:
    """Add a run to sorted free runs, joined with those that it touches."""
    place = bisect_left(free, run)
    first = last = place
    if place and free[place - 1][1] == run[0]:
        first -= 1
    if place < len(free) and free[place][0] == run[1]:
        last += 1
    touching = [run, *free[first:last]]
    free[first:last] = [(min(low for low, _ in touching), max(high for _, high in touching))]


def lanes(node: IntArray, start: FloatArray, end: FloatArray, n_nodes: int) -> tuple[IntArray, IntArray]:
    """Return a lane for each job so that jobs in a lane do not overlap, and the lanes of each node.

    Jobs are given in the order in which they start.
    """
    lane, counts = np.zeros(len(node), dtype=np.int64), np.zeros(n_nodes, dtype=np.int64)
    busy: list[list[tuple[float, int]]] = [[] for _ in range(n_nodes)]
    free: list[list[int]] = [[] for _ in range(n_nodes)]
    for job, own in enumerate(node.tolist()):
        while busy[own] and busy[own][0][0] <= start[job]:
            heapq.heappush(free[own], heapq.heappop(busy[own])[1])
        if not free[own]:
            free[own].append(int(counts[own]))
            counts[own] += 1
        lane[job] = heapq.heappop(free[own])
        heapq.heappush(busy[own], (float(end[job]), int(lane[job])))
    return lane, counts


def _runs(places: IntArray) -> list[tuple[int, int]]:
    """Return (first place, last place + 1) of every run of adjacent places."""
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) > 1)
    firsts, lasts = np.append(places[0], places[breaks + 1]), np.append(places[breaks], places[-1])
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _mean_between(edges: FloatArray, first: FloatArray, last: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the mean between edges of the sum of the weights of intervals ``[first, last)``."""
    # The sum of weights changes only at ends of intervals, so its integral is linear between these. The first edge is
    # added with weight 0, so that the integral begins there.
    times, changes = np.concatenate((edges[:1], first, last)), np.concatenate(([0.0], weights, -weights))
    order = np.argsort(times, kind="stable")
    sums = np.cumsum(changes[order])[:-1] * np.diff(times[order])
    integral = np.interp(edges, times[order], np.concatenate(([0.0], np.cumsum(sums))))
    mean: FloatArray = np.diff(integral) / np.diff(edges)
    return np.maximum(mean, 0.0)
