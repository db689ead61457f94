"""The metrics of a schedule: over its jobs, by size of job, and over the machine's time.

Fragmentation of the idle nodes is defined at one instant and one level of the tree. With f_g idle nodes in group g and
f in total, it is ``1 - sum_g f_g^2 / S(f)``. S(f) is the largest sum that f idle nodes can have, when they fill the
largest groups one after the other. Fragmentation is 0 if they are packed like this (so on an empty machine), and tends
to 1 as they scatter.

The sum of squares counts the ordered pairs of idle nodes that share a group, including each node with itself. It is
Simpson's index of concentration (Nature 163, 1949, doi:10.1038/163688a0) times f^2, and the only property of a node
set's position on which its hop cost depends (see `hop_costs`). The classic external fragmentation of memory, 1 minus
the share of the largest free block, considers only one group and would call an empty cluster of many leaves
fragmented.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.notebook import html_table
from allocopt.simulator.schedule import HOP_COST, ClusterSchedule, JobTimes, Schedule

CLASS_RATIO = 4  # largest size of a class over that of the class before
STARVATION_S = 86_400.0
# Backlog, relative to the time of all submissions, above which a queue counts as overloaded. Real logs of weeks to
# years stay below 0.02 under EASY; a machine whose whole capacity is requested is above 0.06.
_OVERLOADED = 0.05


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of one measure over jobs.

    ``percentile_95`` is not exceeded by 95 % of the jobs; like the median it is interpolated linearly between jobs.
    """

    mean: float
    median: float
    percentile_95: float
    maximum: float

    @classmethod
    def of(cls, values: FloatArray) -> "Spread":
        """Summarize at least one value."""
        median, percentile, maximum = np.percentile(values, [50, 95, 100]).tolist()
        return cls(float(values.mean()), median, percentile, maximum)


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """Statistics of some jobs: the distributions of the measures of `JobTimes`.

    ``starved`` is the number of jobs that waited longer than the threshold. The mean hop cost is over the jobs of
    several nodes; None if there are none, or nodes are not known.
    """

    jobs: int
    wait_s: Spread
    response_s: Spread
    slowdown: Spread
    bounded_slowdown: Spread
    starved: int
    mean_hop_cost: float | None


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The jobs of ``fewest`` to ``most`` processors, and their statistics."""

    fewest: int
    most: int
    statistics: JobStatistics


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredJobs:
    """Jobs with the measures of each, arrays of shape ``(n,)``."""

    processors: IntArray | FloatArray
    times: JobTimes
    starved: NDArray[np.bool_]  # whether it waited longer than the threshold
    hop_costs: FloatArray | None  # its hop cost, NaN for a job of one node; None if nodes are not known

    def statistics(self, which: NDArray[np.bool_] | slice) -> JobStatistics:
        """Summarize some of the jobs, at least one."""
        times, costs = self.times, np.empty(0) if self.hop_costs is None else self.hop_costs[which]
        costs = costs[~np.isnan(costs)]
        measures = (times.wait_s, times.response_s, times.slowdown, times.bounded_slowdown)
        wait, response, slowdown, bounded = (Spread.of(values[which]) for values in measures)
        starved, mean_cost = self.starved[which], float(costs.mean()) if len(costs) else None
        return JobStatistics(len(starved), wait, response, slowdown, bounded, int(starved.sum()), mean_cost)

    def by_size(self, which: slice) -> tuple[SizeClass, ...]:
        """Summarize some of the jobs by size, in powers of four: 1, 2 to 4, 5 to 16, ...; without empty classes."""
        kept = np.zeros(len(self.processors), dtype=np.bool_)
        kept[which] = True
        fewest, most = size_classes(self.processors)
        return tuple(
            SizeClass(*limits, self.statistics(kept & (fewest == limits[0])))
            for limits in sorted(set(zip(fewest[kept].tolist(), most[kept].tolist(), strict=True)))
        )


def size_classes(processors: IntArray | FloatArray) -> tuple[IntArray, IntArray]:
    """Return the fewest and the most processors of each job's class, in powers of four: 1, 2 to 4, 5 to 16, ..."""
    limits = CLASS_RATIO ** np.arange(32, dtype=np.int64)
    number = np.searchsorted(limits, processors)
    return np.append(1, limits + 1)[number], limits[number]


def measured_jobs(schedule: Schedule, starvation_s: float = STARVATION_S, hop_cost: float = HOP_COST) -> MeasuredJobs:
    """Return the measures of each job of a schedule; see `measure`."""
    times = schedule.job_times
    costs = schedule.hop_costs(hop_cost)
    return MeasuredJobs(schedule.workload.processors, times, times.wait_s > starvation_s, costs)


class _Window(NamedTuple):
    start: float  # Begin and end, in seconds, of the time in which the machine is measured
    end: float

    def clip(self, times: FloatArray) -> FloatArray:
        return np.clip(times, self.start, self.end)

    def mean(self, since: FloatArray, until: FloatArray, weights: FloatArray | IntArray | float = 1.0) -> float:
        """Return the total weight of the intervals in progress, as a mean over the window; 0 if it has no length.

        The intervals begin at ``since`` and end at ``until``.
        """
        length = self.end - self.start
        total = float(((self.clip(until) - self.clip(since)) * weights).sum())
        return total / length if length > 0 else 0.0


def _of_nodes(schedule: Schedule, window: _Window) -> tuple[float | None, tuple[float | None, ...] | None]:
    # Returns the share of busy nodes, and per level the mean fragmentation over the time in which some node is idle,
    # None if none ever is. Takes O(m log m) for m starts and ends of jobs on nodes.
    if schedule.nodes is None or schedule.topology is None:
        return None, None
    jobs = np.repeat(np.arange(len(schedule.nodes)), [len(held) for held in schedule.nodes])
    node = np.concatenate((*schedule.nodes, *schedule.nodes)).astype(np.int64)
    time = np.concatenate((schedule.start[jobs], schedule.end[jobs]))
    step = np.repeat(np.array([1, -1]), len(jobs))
    # Sort ends before starts at the same instant. One running sum over all nodes is enough, because it is 0 again after
    # the last job of each node.
    order = np.lexsort((step, time, node))
    node, time, step = node[order], time[order], step[order]
    turns = np.flatnonzero(np.cumsum(step) == (step > 0))
    turns = turns[np.argsort(time[turns], kind="stable")]
    # Nodes that become idle (+1) or busy (-1), in order of time, and the last of these changes at every instant.
    time, node, change, size = time[turns], node[turns], -step[turns], schedule.topology.size
    last = np.flatnonzero(np.diff(time, append=np.inf))
    durations = np.diff(window.clip(np.concatenate(([window.start], time[last], [window.end]))))
    idle = np.concatenate(([size], size + np.cumsum(change)[last]))
    weights = np.where(idle > 0, durations, 0.0)
    length, total = window.end - window.start, float(weights.sum())
    busy = 1.0 - float(durations @ idle) / (length * size) if length > 0 else 0.0
    fragmentation: list[float | None] = []
    for level in schedule.topology.groups_of(np.arange(size)):
        if total <= 0:
            fragmentation.append(None)
            continue
        group, sizes = level[node], np.bincount(level)
        order = np.argsort(group, kind="stable")
        # One running sum over all groups is enough, because it is 0 again after the last change of each group.
        after = np.empty(len(group), dtype=np.int64)
        after[order] = sizes[group[order]] + np.cumsum(change[order])
        before = after - change
        all_idle = int((sizes * sizes).sum())
        squares = np.concatenate(([all_idle], all_idle + np.cumsum(after * after - before * before)[last]))
        # S(f): the largest sum of squares of f idle nodes, which fill the largest groups.
        falling = np.sort(sizes)[::-1]
        nodes = np.concatenate(([0], np.cumsum(falling)))
        filled = np.searchsorted(nodes, idle, "right") - 1
        most = np.concatenate(([0], np.cumsum(falling * falling)))[filled] + (idle - nodes[filled]) ** 2
        fragmentation.append(float(((1.0 - squares / np.maximum(most, 1)) * weights).sum() / total))
    return busy, tuple(fragmentation)


@dataclass(frozen=True, slots=True)
class Trim:
    """Jobs left out of the metrics because the machine was filling or draining.

    ``first`` and ``last`` are shares of the jobs submitted first and last, rounded down to whole jobs; 0.1 is a tenth.
    Raises `UsageError` if a share is negative or no job would be left.
    """

    first: float = 0.0
    last: float = 0.0

    def __post_init__(self) -> None:
        if not (self.first >= 0 and self.last >= 0 and self.first + self.last < 1):
            fault = "must be >= 0 and sum to less than 1"
            raise UsageError(f"the shares of jobs trimmed are {self.first:g} and {self.last:g}, {fault}")

    def kept(self, jobs: int) -> slice:
        """Return the slice of the jobs, in order of submission, that are kept; at least one."""
        # A thousandth of a job compensates for rounding errors of shares such as 0.1.
        first, last = int(self.first * jobs + 1e-3), int(self.last * jobs + 1e-3)
        first = min(first, jobs - 1)
        return slice(first, max(jobs - last, first + 1))


NO_TRIM = Trim()


@dataclass(frozen=True, slots=True)
class MachineUse:
    """Use of the machine between the first submission and the last end of the measured jobs.

    The makespan is the length of this time. Utilization is the share of the processor-seconds (on a cluster, of the
    core-seconds) that jobs held. If jobs may share nodes, it is also given by resource; for nodes, it is the share of
    nodes with at least one job. Queue lengths count the waiting jobs over time. Fragmentation (see
    `allocopt.simulator.metrics`) is a mean for each level of the tree below the top, leaf level first; a level is None
    if no node was ever idle, and the whole value is None if nodes or topology are not known.

    The backlog is the time that the whole machine would need for the waiting work, divided by the time from the first
    submission to the last. There is a mean for each quarter of the time from the first submission to the last.
    """

    makespan_s: float
    utilization: float
    mean_queue_length: float
    max_queue_length: int
    fragmentation: tuple[float | None, ...] | None
    backlog: tuple[float, ...]
    utilization_by_resource: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """Metrics of a schedule: of all jobs that are not trimmed, of the same jobs by size, and of the machine.

    Jobs that wait longer than ``starvation_s`` seconds are ``starved``; their ids are in order of submission.
    """

    jobs: JobStatistics
    by_size: tuple[SizeClass, ...]
    machine: MachineUse
    starvation_s: float
    starved: IntArray

    def _repr_html_(self) -> str:
        jobs, machine = self.jobs, self.machine
        wait = jobs.wait_s
        facts = (
            ("jobs", jobs.jobs),
            ("mean wait s", wait.mean),
            ("median wait s", wait.median),
            ("95 % wait s", wait.percentile_95),
            ("longest wait s", wait.maximum),
            ("mean bounded slowdown", jobs.bounded_slowdown.mean),
            (f"jobs that waited longer than {self.starvation_s:,g} s", jobs.starved),
            ("mean hop cost", jobs.mean_hop_cost),
            ("utilization", f"{100 * machine.utilization:.1f} %"),
            ("mean queue length", machine.mean_queue_length),
            ("makespan s", machine.makespan_s),
        )
        return html_table("Metrics", facts)


def is_overloaded(backlog: Sequence[float]) -> bool:
    """Whether the backlog is above a twentieth of the trace's time in both quarters of its second half."""
    return bool(backlog) and min(backlog[2:]) > _OVERLOADED


def backlog(
    schedule: Schedule, held: FloatArray | IntArray, size: float, quarters: FloatArray, which: BoolArray | None = None
) -> tuple[float, ...]:
    """Return the backlog in each quarter of the submissions, see `MachineUse`.

    Parameters
    ----------
    schedule
        The schedule of the jobs.
    held, size
        Units of a resource that each job holds while it runs, shape ``(n,)``, and the machine's total.
    quarters
        The five times at which the quarters begin and end.
    which
        Whether each job counts, shape ``(n,)``; all if not given.
    """
    work = held * schedule.run_s / (size * max(float(np.ptp(quarters)), 1e-9))
    work = work if which is None else np.where(which, work, 0.0)
    return tuple(_Window(*ends).mean(schedule.release, schedule.start, work) for ends in pairwise(quarters.tolist()))


def measure(
    schedule: Schedule, trim: Trim = NO_TRIM, starvation_s: float = STARVATION_S, hop_cost: float = HOP_COST
) -> Metrics:
    """Return the metrics of a schedule of at least one job; waits above ``starvation_s`` seconds count as starved.

    Metrics of the machine include trimmed jobs, but only the time from the first submission to the last end of the jobs
    that are kept.
    """
    kept, measured = trim.kept(len(schedule.workload)), measured_jobs(schedule, starvation_s, hop_cost)
    window = _Window(float(schedule.workload.submit[kept].min()), float(schedule.end[kept].max()))
    held_from = schedule.start if schedule.held_from is None else schedule.held_from
    # The queue is longest just after a release. Jobs that start when they are released never wait.
    released, started = np.sort(window.clip(schedule.release)), np.sort(window.clip(schedule.start))
    waiting = np.searchsorted(released, released, "right") - np.searchsorted(started, released, "right")
    quarters = np.linspace(window.start, float(schedule.workload.submit[kept].max()), 5)
    held, size = next(iter(schedule.used.values()))
    used = [(name, window.mean(held_from, schedule.end, held) / size) for name, (held, size) in schedule.used.items()]
    busy, fragmentation = _of_nodes(schedule, window)
    machine = MachineUse(
        window.end - window.start,
        used[0][1],
        window.mean(schedule.release, schedule.start),
        int(waiting.max()),
        fragmentation,
        backlog(schedule, held, size, quarters),
        (*used, ("nodes", busy)) if isinstance(schedule, ClusterSchedule) and busy is not None else (),
    )
    return Metrics(
        measured.statistics(kept),
        measured.by_size(kept),
        machine,
        starvation_s,
        schedule.workload.ids[kept][measured.starved[kept]],
    )
