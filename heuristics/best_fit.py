"""Solver ``best-fit``: per job, what Slurm's tree topology plugin does.

The job goes to the lowest switch that has enough idle nodes, among those of that level to the one with the fewest;
under it, leaf by leaf: the leaf with the fewest idle nodes that still holds all that is missing, else the leaf with
the most (Slurm, select/linear and topology/tree documentation).
"""

from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.base import Strategy
from allocopt.problems.encoding import allocation_at, encode
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run

LARGEST_WINDOW, MOST_JOBS = 1_000_000, 20_000


class BestFit(TopologySolver):
    """Lowest switch that fits, then best fit over its leaves, jobs in their order; O(leaves log leaves) a job.

    If the time runs out, the jobs that are left take the first idle nodes.
    """

    name: ClassVar[str] = "best-fit"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}), frozenset(), f"{LARGEST_WINDOW:,} idle nodes, {MOST_JOBS:,} jobs"
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        n_idle, n_jobs = len(problem.idle_nodes), len(problem.jobs)
        if n_idle <= LARGEST_WINDOW and n_jobs <= MOST_JOBS:
            return None
        return f"it has {n_idle:,} idle nodes and {n_jobs:,} jobs; {self.capabilities.largest} are taken"

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Place the jobs in their order; see `TopologySolver.search`."""
        switches = _Switches(encode(problem).groups)
        placed: list[IntArray] = []
        for size in problem.sizes.tolist():
            if run.clock.expired():
                break
            placed.append(switches.take(size))
        late = problem.sizes[len(placed) :]
        rest = np.split(switches.idle_positions()[: late.sum()], np.cumsum(late)[:-1]) if len(late) else []
        run.offer(allocation_at(problem, [*placed, *rest]))
        return StopReason.TIME_LIMIT if len(late) else StopReason.COMPLETED


class _Switches:
    """The idle positions of every leaf, and the idle counts of every switch.

    Parameters
    ----------
    groups
        Group of each idle position per level below the top, shape ``(L - 1, m)``.
    """

    def __init__(self, groups: IntArray) -> None:
        levels = np.vstack((groups, np.zeros((1, groups.shape[1]), dtype=np.int64)))
        order = np.argsort(levels[0], kind="stable")
        first = np.flatnonzero(np.diff(levels[0][order], prepend=-1))
        self._positions: IntArray = order
        self._end = np.append(first[1:], len(order))
        self._groups_of_leaf = levels[:, order[first]]
        self._idle = [np.bincount(level) for level in levels]
        self._leaves = [_members(groups) for groups in self._groups_of_leaf]

    def take(self, size: int) -> IntArray:
        """Take ``size`` idle positions for one job, which fit under the top switch."""
        under = self._lowest_switch(size)
        idle = self._idle[0][under]
        largest_first = np.argsort(-idle, kind="stable")
        # What is missing before each leaf, if all larger ones have been emptied.
        missing = size - np.cumsum(idle[largest_first]) + idle[largest_first]
        emptied = int(np.argmax(idle[largest_first] >= missing))
        left = largest_first[emptied:]
        fitting = np.sort(left[idle[left] >= missing[emptied]])
        last = fitting[np.argmin(idle[fitting])]
        counts = [*idle[largest_first[:emptied]].tolist(), int(missing[emptied])]
        leaves = [*under[largest_first[:emptied]].tolist(), int(under[last])]
        return np.concatenate([self._take_from(leaf, count) for leaf, count in zip(leaves, counts, strict=True)])

    def idle_positions(self) -> IntArray:
        """Positions that are still idle, rising."""
        idle = self._idle[0]
        runs = [self._positions[end - count : end] for end, count in zip(self._end, idle, strict=True)]
        return np.sort(np.concatenate(runs))

    def _lowest_switch(self, size: int) -> IntArray:
        """Leaves under the lowest switch with ``size`` idle nodes; of several, the one with the fewest."""
        for idle, leaves in zip(self._idle, self._leaves, strict=True):
            fitting = np.flatnonzero(idle >= size)
            if len(fitting):
                return leaves[int(fitting[np.argmin(idle[fitting])])]
        raise AssertionError("a validated window fits under the top switch")

    def _take_from(self, leaf: int, count: int) -> IntArray:
        """Take the first ``count`` idle positions of a leaf."""
        first = int(self._end[leaf]) - int(self._idle[0][leaf])
        for idle, group in zip(self._idle, self._groups_of_leaf[:, leaf].tolist(), strict=True):
            idle[group] -= count
        return self._positions[first : first + count]


def _members(groups: IntArray) -> list[IntArray]:
    """Leaves of every group, given the group of every leaf."""
    order: IntArray = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
