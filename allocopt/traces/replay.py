"""The state of a cluster while a workload is replayed through the window rule."""

import heapq

import numpy as np

from allocopt.arrays import IntArray
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.traces.workload import Workload


class Replay:
    """Which jobs start in which period (NSA paper, section III-C).

    At every multiple of the period, jobs that have ended free their nodes (a job holds them on ``[start, end)``), then
    the waiting jobs are taken by number of waiting periods, most first, then by nodes, fewest first, then by
    submission and id, until one does not fit the idle nodes. All that are left wait one more period together, so a
    job with more waiting periods is one that came in an earlier period: the order of all jobs is known beforehand, and
    the jobs start in that order.

    Parameters
    ----------
    workload
        Jobs that count whole nodes, none larger than the cluster.
    size
        Nodes of the cluster, all idle at first.
    period_s
        The period tau in seconds, positive.

    Raises
    ------
    UsageError
        If the period is not positive.
    InvalidProblemError
        If a job is larger than the cluster.
    """

    def __init__(self, workload: Workload, size: int, period_s: float) -> None:
        if not 0 < period_s < float("inf"):
            raise UsageError(f"the period is {period_s} s, must be a positive number")
        _check_sizes(workload, size)
        arrivals = np.ceil(workload.submit / period_s).astype(np.int64)
        order = np.lexsort((workload.ids, workload.submit, workload.processors, arrivals))
        self.period = 0
        self._order: list[int] = order.tolist()
        self._arrivals: list[int] = arrivals[order].tolist()
        self._sizes: list[int] = workload.processors[order].tolist()
        self._lengths = np.ceil(workload.run / period_s).astype(np.int64)
        self._next = 0
        self._idle = np.ones(size, dtype=np.bool_)
        self._n_idle = size
        self._ends: list[tuple[int, int, IntArray]] = []

    def advance(self) -> list[int]:
        """Go to the next period in which a job starts, and return all that do; empty when every job has started.

        They are indices into the workload, in the order of priority; each must then be given its nodes by `start`.
        """
        while self._next < len(self._order):
            self.period = max(self.period, self._arrivals[self._next])
            self._free_ended()
            if selected := self._select():
                return selected
            self.period = self._ends[0][0]
        return []

    def idle_nodes(self) -> IntArray:
        """Nodes that no job holds, rising."""
        return np.flatnonzero(self._idle)

    def start(self, job: int, nodes: IntArray) -> None:
        """Let a job hold its nodes from this period on."""
        self._idle[nodes] = False
        self._n_idle -= len(nodes)
        heapq.heappush(self._ends, (self.period + int(self._lengths[job]), job, nodes))

    def _free_ended(self) -> None:
        """Free the nodes of all jobs that have ended."""
        while self._ends and self._ends[0][0] <= self.period:
            _, _, nodes = heapq.heappop(self._ends)
            self._idle[nodes] = True
            self._n_idle += len(nodes)

    def _select(self) -> list[int]:
        """Take waiting jobs while they fit the idle nodes."""
        first, left = self._next, self._n_idle
        while self._next < len(self._order) and self._arrivals[self._next] <= self.period:
            left -= self._sizes[self._next]
            if left < 0:
                break
            self._next += 1
        return self._order[first : self._next]


def _check_sizes(workload: Workload, size: int) -> None:
    """Raise `InvalidProblemError` for a job that can never start."""
    if len(workload) and workload.processors.max() > size:
        job = int(np.argmax(workload.processors > size))
        asked = workload.processors[job]
        raise InvalidProblemError(f"job {workload.ids[job]}", f"asks for {asked} nodes, the cluster has {size}")
