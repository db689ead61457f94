"""Solver ``slurm-tree``: the nodes that Slurm's tree topology plugin gives to one job after the other.

It does what slurmctld 22.05 does with ``select/cons_tres``, ``topology/tree`` and whole nodes of one weight, where all
leaves are equally far below one top switch. A job takes leaf switches until it has its nodes, each as the best of a
walk along all leaves in their order. On this walk a leaf takes the place of the best one so far

- if it fits better and is as far from the leaves taken before (the sum of the hops counts), or
- if it fits no worse and is nearer to them.

Which of two leaves fits better is decided at the lowest level below their common switch where one of the switches above
them has enough idle nodes for all that is missing: enough is better than too few, and of two that have enough the one
with fewer. Where none has enough, that child of the common switch is better which has more idle nodes.

So a leaf that fits well but lies far away is taken or not by whether it comes before a nearer one. And the switches
above the leaves keep the counts they had before the job: a pod that the job has emptied still looks full.
"""

from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.topology import TopologyProblem
from heuristics.idle_switches import IdleSwitches
from heuristics.job_by_job import JobByJob


class SlurmTree(JobByJob):
    """Slurm's own choice, jobs in their order; O(leaves) for every leaf that is looked at as the best."""

    name: ClassVar[str] = "slurm-tree"

    def order(self, problem: TopologyProblem) -> IntArray:
        """Return the jobs as they come."""
        return np.arange(len(problem.jobs))

    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        """Take positions leaf by leaf; see `JobByJob.take`."""
        above = switches.above_leaves
        idle = np.stack([idle[groups] for idle, groups in zip(switches.idle, above, strict=True)])
        distance = np.zeros(above.shape[1], dtype=np.int64)
        leaves: list[int] = []
        counts: list[int] = []
        while size > 0:
            leaf = _best_leaf(above, idle, distance, size)
            leaves.append(leaf)
            counts.append(min(size, int(idle[0, leaf])))
            size -= counts[-1]
            idle[0, leaf] = 0
            distance += _levels_apart(above, above[:, leaf])
        return switches.take(leaves, counts)


def _best_leaf(above: IntArray, idle: IntArray, distance: IntArray, size: int) -> int:
    """Leaf at which the walk ends; ``above``, ``idle``: switch of each level above each leaf, and its idle nodes."""
    enough = idle >= size
    # Any that has enough is better than any that has not.
    fit = np.where(enough, 2 * idle.max() + 1 - idle, idle)
    decides = np.argmax(enough, axis=0)
    later = np.flatnonzero(idle[0])
    best, later = int(later[0]), later[1:]
    while True:
        below_common = _levels_apart(above[:, later], above[:, best]) - 1
        level = np.minimum(np.minimum(decides[later], decides[best]), below_common)
        better = fit[level, later] - fit[level, best]
        nearer = distance[best] - distance[later]
        takes = np.flatnonzero(((nearer > 0) & (better >= 0)) | ((nearer == 0) & (better > 0)))
        if not len(takes):
            return best
        best, later = int(later[takes[0]]), later[takes[0] + 1 :]


def _levels_apart(above: IntArray, leaf: IntArray) -> IntArray:
    """Levels at which the switches above leaves are not those above one of them, which are the lowest ones."""
    apart: IntArray = np.count_nonzero(above != leaf[:, None], axis=0)
    return apart
