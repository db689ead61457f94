"""The answer that always exists: jobs one after the other along the idle sequence."""

import numpy as np

from allocopt.problems.encoding import allocation_of_blocks
from allocopt.problems.topology import Allocation, TopologyProblem


def sequential_allocation(problem: TopologyProblem) -> Allocation:
    """Give the jobs, in their order, consecutive idle nodes from the first one on.

    This is feasible under every strategy, and the paper's column "Seq." (NSA paper, Table III).
    """
    sizes = problem.sizes
    return allocation_of_blocks(problem, np.cumsum(sizes) - sizes)
