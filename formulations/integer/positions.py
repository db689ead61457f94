"""Where the blocks of a SCAS allocation begin."""

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.encoding import owners_of
from allocopt.problems.topology import Allocation, TopologyProblem


def first_positions(problem: TopologyProblem, allocation: Allocation) -> IntArray:
    """Idle position at which each job's circular block begins, shape ``(J,)``; 0 for a job that has all positions."""
    owners = owners_of(problem, allocation)
    starts = np.zeros(len(problem.jobs), dtype=np.int64)
    begins = np.flatnonzero((owners != np.roll(owners, 1)) & (owners >= 0))
    starts[owners[begins]] = begins
    return starts
