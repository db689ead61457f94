"""Solver ``best-fit``: the lowest switch that fits, a rule of our own; what Slurm does is `slurm-tree`.

The job goes to the lowest switch that has enough idle nodes, among those of that level to the one with the fewest;
under it, leaf by leaf: the leaf with the fewest idle nodes that still holds all that is missing, else the leaf with
the most.
"""

from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.topology import TopologyProblem
from heuristics.idle_switches import IdleSwitches
from heuristics.job_by_job import JobByJob


class BestFit(JobByJob):
    """Lowest switch that fits, then best fit over its leaves, jobs in their order; O(leaves log leaves) a job."""

    name: ClassVar[str] = "best-fit"

    def order(self, problem: TopologyProblem) -> IntArray:
        """Return the jobs as they come."""
        return np.arange(len(problem.jobs))

    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        """Take positions under one switch; see `JobByJob.take`."""
        under = _lowest_switch(switches, size)
        idle = switches.idle[0][under]
        largest_first = np.argsort(-idle, kind="stable")
        # What is missing before each leaf, if all larger ones have been emptied.
        missing = size - np.cumsum(idle[largest_first]) + idle[largest_first]
        emptied = int(np.argmax(idle[largest_first] >= missing))
        left = largest_first[emptied:]
        fitting = np.sort(left[idle[left] >= missing[emptied]])
        last = fitting[np.argmin(idle[fitting])]
        counts = [*idle[largest_first[:emptied]].tolist(), int(missing[emptied])]
        leaves = [*under[largest_first[:emptied]].tolist(), int(under[last])]
        return switches.take(leaves, counts)


def _lowest_switch(switches: IdleSwitches, size: int) -> IntArray:
    """Leaves under the lowest switch with ``size`` idle nodes; of several, the one with the fewest."""
    for idle, leaves in zip(switches.idle, switches.leaves, strict=True):
        fitting = np.flatnonzero(idle >= size)
        if len(fitting):
            return leaves[int(fitting[np.argmin(idle[fitting])])]
    raise AssertionError("a validated window fits under the top switch")
