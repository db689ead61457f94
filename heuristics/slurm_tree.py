"""Solver ``slurm-tree``: the nodes that Slurm's tree topology plugin gives to one job after the other.

It does what slurmctld 22.05 does with ``select/cons_tres``, ``topology/tree`` and whole nodes of one weight, where all
leaves are equally far below one top switch. A job takes leaf switches until it has its nodes, each as the best of a
walk along all leaves in their order. On this walk a leaf takes the place of the best one so far

- if it fits better and is as far from the leaves taken before (all links on the ways to them count), or
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
    """Slurm's own choice, jobs in their order; O(leaves) for every leaf that a job takes."""

    name: ClassVar[str] = "slurm-tree"

    def order(self, problem: TopologyProblem) -> IntArray:
        """Return the jobs as they come."""
        return np.arange(len(problem.jobs))

    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        """Take positions leaf by leaf; see `JobByJob.take`."""
        # Of leaves side by side below one switch, a row, only the one that fits best can end a walk.
        rows = np.flatnonzero(np.diff(switches.above_leaves[1:2].sum(axis=0), prepend=-1))
        above = switches.above_leaves[1:, rows]
        leaves_idle = switches.idle[0].copy()
        idle = np.stack([idle[groups[rows]] for idle, groups in zip(switches.idle, switches.above_leaves, strict=True)])
        distance = np.zeros(len(rows), dtype=np.int64)
        leaves: list[int] = []
        counts: list[int] = []
        while size > 0:
            best = _best_of_rows(leaves_idle, rows, size)
            idle[0] = leaves_idle[best]
            row = _end_of_walk(above, idle, distance, size)
            leaves.append(int(best[row]))
            counts.append(min(size, int(idle[0, row])))
            size -= counts[-1]
            leaves_idle[best[row]] = 0
            distance += _levels_apart(above, row)
        return switches.take(leaves, counts)


def _best_of_rows(idle: IntArray, rows: IntArray, size: int) -> IntArray:
    """Return the leaf of each row that fits best, of several the first; ``rows``: first leaf of each."""
    at = np.arange(len(idle))
    best: IntArray = -np.maximum.reduceat(_fit(idle, size) * len(idle) - at, rows) % len(idle)
    return best


def _end_of_walk(above: IntArray, idle: IntArray, distance: IntArray, size: int) -> int:
    """Return the row at which a walk ends; ``above``: the switches above it, ``idle``: also its leaf."""
    fit = _fit(idle, size)
    enough = np.argmax(idle >= size, axis=0)
    later = np.flatnonzero(idle[0])
    best, later = int(later[0]), later[1:]
    while True:
        level = np.minimum(np.minimum(enough[later], enough[best]), _levels_apart(above, best)[later])
        better = fit[level, later] - fit[level, best]
        nearer = distance[best] - distance[later]
        takes = np.flatnonzero(((nearer > 0) & (better >= 0)) | ((nearer == 0) & (better > 0)))
        if not len(takes):
            return best
        best, later = int(later[takes[0]]), later[takes[0] + 1 :]


def _fit(idle: IntArray, size: int) -> IntArray:
    """Return what is the higher the better so many idle nodes fit."""
    return np.where(idle >= size, 2 * idle.max() + 1 - idle, idle)


def _levels_apart(above: IntArray, row: int) -> IntArray:
    """Return how many levels lie between the leaves of rows, that of a row among them, and their common switch."""
    apart: IntArray = np.count_nonzero(above != above[:, [row]], axis=0)
    return apart
