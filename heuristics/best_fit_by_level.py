"""Solver ``best-fit-by-level``: best fit at every level of switches in turn, the largest job first.

`best-fit` looks for the fewest idle nodes at one level only and then fills leaves wherever they are.
Here a job goes, from the top switch down, to the child switch with the fewest idle nodes that holds it; if none does,
it empties the one with the most, and what is missing goes on in the same way.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.topology import TopologyProblem
from heuristics.idle_switches import IdleSwitches
from heuristics.job_by_job import JobByJob


class BestFitByLevel(JobByJob):
    """Best fit at every level, jobs by falling size; O(switches) a job where it fits under few of them."""

    name: ClassVar[str] = "best-fit-by-level"

    def order(self, problem: TopologyProblem) -> IntArray:
        """Return the jobs by falling size, equal ones as they come."""
        order: IntArray = np.argsort(-problem.sizes, kind="stable")
        return order

    def take(self, switches: IdleSwitches, size: int) -> IntArray:
        """Take positions from the top switch down; see `JobByJob.take`."""
        counts = {0: size}
        for children, idle in reversed(list(zip(switches.children, switches.idle, strict=False))):
            parts = [_best_fit(children[switch], idle, count) for switch, count in counts.items()]
            counts = {switch: count for part in parts for switch, count in part}
        return switches.take(list(counts), list(counts.values()))


def _best_fit(switches: IntArray, idle: IntArray, size: int) -> Iterator[tuple[int, int]]:
    """Yield which of some switches a job takes, and how many nodes of each."""
    left = idle[switches]
    while size > 0:
        fitting = np.flatnonzero(left >= size)
        chosen = int(fitting[np.argmin(left[fitting])] if len(fitting) else np.argmax(left))
        yield int(switches[chosen]), min(size, int(left[chosen]))
        size -= int(left[chosen])
        left[chosen] = 0
