"""Windows: the allocation problems that a workload gives rise to, period by period."""

from collections.abc import Callable, Iterator

import numpy as np

from allocopt.cluster.topology import Topology
from allocopt.errors import UsageError
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.solving.verify import verify
from allocopt.traces.replay import Replay
from allocopt.traces.workload import Workload

Allocate = Callable[[TopologyProblem], Allocation]
"""Decides where the jobs of a window go, so that the cluster can go on to the next."""


def windows(
    workload: Workload,
    topology: Topology,
    period_s: float,
    allocate: Allocate,
    *,
    hop_cost: float = 1000.0,
    min_jobs: int = 2,
    max_jobs: int | None = None,
    skip: int = 0,
    prefix: str = "window",
) -> Iterator[TopologyProblem]:
    """Replay a workload through the window rule (NSA paper, section III-C; see `Replay`).

    One-node jobs take the first idle nodes, at no cost; the others are a problem over the idle nodes that remain.

    Parameters
    ----------
    workload
        Jobs that count whole nodes, none larger than the cluster: see `Workload.in_nodes`, `Workload.fitting`.
    topology
        The cluster, all its nodes idle at time 0.
    period_s
        Length of a period in seconds, positive.
    allocate
        Allocates every window, those that are not yielded too, but not the ones after the last that is asked for.
    hop_cost
        Cost of one hop.
    min_jobs, max_jobs
        Least (1 or more) and greatest number of jobs of a window that is yielded; None for no upper limit.
    skip
        How many such windows to leave out at the beginning.
    prefix
        What their names begin with; a number follows, 000 for the first one yielded.

    Yields
    ------
    TopologyProblem
        Windows in order of time, strategy ``free``.

    Raises
    ------
    UsageError
        If the period or a limit makes no sense.
    InvalidProblemError
        If a job is larger than the cluster.
    InvalidSolutionError
        If ``allocate`` gives a node away that is not idle, or not as many as a job asks for.
    """
    _check_limits(min_jobs, max_jobs, skip)
    largest = len(workload) if max_jobs is None else max_jobs
    replay = Replay(workload, topology.size, period_s)
    found = -skip
    while selected := replay.advance():
        jobs = _start_one_node_jobs(replay, workload, selected)
        if not jobs:
            continue
        problem = _problem(replay, workload, jobs, topology, hop_cost, f"{prefix}-{max(found, 0):03d}")
        if min_jobs <= len(jobs) <= largest:
            if found >= 0:
                yield problem
            found += 1
        allocation = allocate(problem)
        verify(problem, allocation)
        for job, nodes in zip(jobs, allocation.nodes, strict=True):
            replay.start(job, nodes)


def _check_limits(min_jobs: int, max_jobs: int | None, skip: int) -> None:
    """Raise `UsageError` unless some window can meet the limits."""
    if min_jobs < 1:
        raise UsageError(f"the least number of jobs of a window is {min_jobs}, must be at least 1")
    if max_jobs is not None and max_jobs < min_jobs:
        raise UsageError(f"the greatest number of jobs of a window, {max_jobs}, is below the least, {min_jobs}")
    if skip < 0:
        raise UsageError(f"the number of windows to skip is {skip}, must not be negative")


def _start_one_node_jobs(replay: Replay, workload: Workload, selected: list[int]) -> list[int]:
    """Give the one-node jobs the first idle nodes, and return the other jobs."""
    single = [job for job in selected if workload.processors[job] == 1]
    for job, node in zip(single, replay.idle_nodes()[: len(single)], strict=True):
        replay.start(job, np.array([node]))
    return [job for job in selected if workload.processors[job] > 1]


def _problem(
    replay: Replay, workload: Workload, jobs: list[int], topology: Topology, hop_cost: float, name: str
) -> TopologyProblem:
    """Allocation problem of jobs over the nodes that are idle now."""
    asked = tuple(Job(str(workload.ids[job]), int(workload.processors[job])) for job in jobs)
    return TopologyProblem(topology, replay.idle_nodes(), asked, hop_cost, name)
