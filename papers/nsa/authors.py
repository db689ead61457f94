"""Conventions of the NSA authors' program that the paper does not state: cluster, hops, windows, job-by-job loop.

They are taken from their repository github.com/lzk23/hpcschedule, commit 1f87208: 25 racks of 4 containers of 10 nodes;
1, 3 or 5 hops between two nodes, with each pair counted once; at most five jobs per window; one-node jobs, at a cost of
1, take nodes that a window leaves. ``nsa-figure6-authors`` shows that jobs that start one by one get the same nodes as
in the paper.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.topology import FatTree, Topology, hop_costs
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.simulator.schedule import HOP_COST
from allocopt.traces.workload import Workload

AUTHORS_CLUSTER = FatTree(25, 4, 10, hops=(1, 3, 5), pairs="unordered")
AUTHORS_MOST_JOBS = 5
SOLVING_S = 1.5
"""Seconds that NSA with 500 steps takes for a window, by Table III; the start of a window's jobs is delayed by this."""
Nodes = Sequence[IntArray]


@dataclass(frozen=True, slots=True)
class Conventions:
    """Conventions of windows: the cluster, the most jobs, and the start of their jobs."""

    topology: Topology = AUTHORS_CLUSTER
    most_jobs: int | None = AUTHORS_MOST_JOBS  # most jobs of two or more nodes in a window; None for no limit
    ones_last: bool = True  # whether one-node jobs get nodes after the window, not the first idle nodes before it
    solving_s: float = SOLVING_S
    period_s: float = 60.0


class Started(NamedTuple):
    """A job that begins: its place in the workload, when, and on which nodes."""

    job: int
    start_s: float
    nodes: IntArray


class Period(NamedTuple):
    """End of a period: the window, None if there is nothing to decide, and the jobs that begin."""

    window: TopologyProblem | None
    started: tuple[Started, ...]


@dataclass(slots=True)
class _Machine:
    """Nodes, and the jobs that run on them, by their ends."""

    workload: Workload
    idle: BoolArray
    running: list[tuple[float, int, IntArray]] = field(default_factory=list)
    n_started: int = 0

    @classmethod
    def of(cls, workload: Workload, topology: Topology) -> "_Machine":
        return cls(workload, np.ones(topology.size, dtype=np.bool_))

    @property
    def n_idle(self) -> int:
        return int(self.idle.sum())

    def start(self, job: int, now: float, nodes: IntArray | None = None) -> Started:
        """Start a job on its nodes, by default on the first idle ones."""
        if nodes is None:
            nodes = np.flatnonzero(self.idle)[: self.size_of(job)]
        self.idle[nodes] = False
        heapq.heappush(self.running, (now + float(self.workload.run[job]), self.n_started, nodes))
        self.n_started += 1
        return Started(job, now, nodes)

    def size_of(self, job: int) -> int:
        return int(self.workload.processors[job])

    @property
    def next_end(self) -> float:
        return self.running[0][0] if self.running else float("inf")

    def release_first(self) -> float:
        """Free the nodes of the job that ends next; return the time of its end."""
        end, _, nodes = heapq.heappop(self.running)
        self.idle[nodes] = True
        return end


class _Waiting(NamedTuple):
    """A waiting job; the smallest tuple is taken first: by most periods waited, then fewest nodes, then arrival."""

    minus_periods: int
    nodes: int
    job: int


def _selected(queue: Sequence[_Waiting], n_idle: int, most_jobs: int | None) -> int:
    """Return the number of first jobs that are taken: up to the first that does not fit or exceeds the limit."""
    asked = n_jobs = 0
    for number, (_, nodes, _) in enumerate(queue):
        n_jobs += nodes > 1
        asked += nodes
        if asked > n_idle or (most_jobs is not None and n_jobs > most_jobs):
            return number
    return len(queue)


def periods(
    workload: Workload, conventions: Conventions, allocate: Callable[[TopologyProblem], Nodes], first: int = 0
) -> Iterator[Period]:
    """Replay a workload from one of its jobs on, on an idle cluster, period by period until all jobs have begun.

    The first period begins with the first submission; a job that arrives at the end of a period belongs to the next.
    ``allocate`` returns the nodes of a window's jobs.
    """
    machine = _Machine.of(workload, conventions.topology)
    queue: list[_Waiting] = []
    now, arrived = float(workload.submit[first]), first
    while queue or arrived < len(workload):
        now += conventions.period_s
        while machine.next_end <= now:
            machine.release_first()
        last = int(np.searchsorted(workload.submit, now, side="left"))
        queue += [_Waiting(0, machine.size_of(job), job) for job in range(arrived, last)]
        queue.sort()
        arrived = last
        n_taken = _selected(queue, machine.n_idle, conventions.most_jobs)
        taken, queue = queue[:n_taken], [one._replace(minus_periods=one.minus_periods - 1) for one in queue[n_taken:]]
        yield _decided(machine, conventions, now, [one.job for one in taken], allocate)


def _decided(
    machine: _Machine,
    conventions: Conventions,
    now: float,
    taken: Sequence[int],
    allocate: Callable[[TopologyProblem], Nodes],
) -> Period:
    """Start some jobs; one that takes all idle nodes needs no window."""
    ones = [job for job in taken if machine.size_of(job) == 1]
    jobs = [job for job in taken if machine.size_of(job) > 1]
    begin = now + conventions.solving_s
    started = [] if conventions.ones_last else [machine.start(job, begin) for job in ones]
    window = None
    if jobs and machine.size_of(jobs[0]) < machine.n_idle:
        asked = tuple(Job(str(job), machine.size_of(job)) for job in jobs)
        window = TopologyProblem(conventions.topology, np.flatnonzero(machine.idle), asked, name=f"period at {now:g} s")
        started += [machine.start(job, begin, nodes) for job, nodes in zip(jobs, allocate(window), strict=True)]
    else:
        started += [machine.start(job, now) for job in jobs]
    if conventions.ones_last:
        started += [machine.start(job, begin) for job in ones]
    return Period(window, tuple(started))


def job_by_job(workload: Workload, topology: Topology = AUTHORS_CLUSTER, *, backfills: bool) -> list[Started]:
    """Start jobs one by one on the first idle nodes, in the order of arrival, and return them as they begin.

    Nodes are freed only when the clock advances, one job after the other. With ``backfills``, while the first job of
    the queue does not fit, other jobs begin if they end before the time at which it fits. Few jobs can do so, because
    the queue holds only jobs that have arrived while its first job waited.
    """
    machine = _Machine.of(workload, topology)
    submit, n_jobs = workload.submit, len(workload)
    queue, started = [0], list[Started]()
    now, arrived = float(submit[0]), 1

    def move_on() -> None:
        """Advance to the next arrival or end; simultaneous arrivals come first."""
        nonlocal now, arrived
        if arrived < n_jobs and submit[arrived] <= machine.next_end:
            now = max(now, float(submit[arrived]))
            queue.append(arrived)
            arrived += 1
        else:
            now = max(now, machine.release_first())

    while queue:
        head = queue[0]
        fits_at = _fits_at(machine, head, now)
        while machine.size_of(head) > machine.n_idle:
            for job in queue.copy() if backfills else ():
                if machine.size_of(job) <= machine.n_idle and now + workload.run[job] < fits_at:
                    started.append(machine.start(job, now))
                    queue.remove(job)
            move_on()
        started.append(machine.start(queue.pop(0), now))
        while not queue and arrived < n_jobs:
            move_on()
    return started


def _fits_at(machine: _Machine, job: int, now: float) -> float:
    """Return when a job fits if no other begins before."""
    free, at = machine.n_idle, now
    for end, _, nodes in sorted(machine.running, key=lambda one: one[:2]):
        if free >= machine.size_of(job):
            break
        free, at = free + len(nodes), end
    return at


def mean_cost_and_wait(workload: Workload, topology: Topology, started: Sequence[Started]) -> dict[str, float]:
    """Return the mean hop cost and the mean wait in seconds of all jobs; costs are rounded down, but to at least 1."""
    costs = hop_costs(topology, HOP_COST, [one.nodes for one in started])
    # Tolerate rounding errors: a value just below a whole number counts as this number.
    whole = np.maximum(np.floor(costs + 1e-6), 1.0)
    waits = [one.start_s - float(workload.submit[one.job]) for one in started]
    return {"cost": float(whole.mean()), "wait s": float(np.mean(waits))}
