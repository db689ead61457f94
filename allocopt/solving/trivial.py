"""The answer that exists where no job has rules: jobs one after the other along the idle sequence."""

import numpy as np

from allocopt.problems.encoding import allocation_of_blocks
from allocopt.problems.side import broken_rule
from allocopt.problems.topology import Allocation, TopologyProblem


def trivial_allocation(problem: TopologyProblem) -> Allocation | None:
    """Return the sequential allocation if it keeps to the rules of the jobs; without rules it always does."""
    allocation = sequential_allocation(problem)
    for job, nodes in zip(problem.jobs, allocation.nodes, strict=True):
        if job.placement is not None and broken_rule(problem.topology, job.placement, nodes) is not None:
            return None
    return allocation


def sequential_allocation(problem: TopologyProblem) -> Allocation:
    """Give the jobs, in their order, consecutive idle nodes from the first one on.

    This is feasible under every strategy, and the paper's column "Seq." (NSA paper, Table III).
    """
    sizes = problem.sizes
    return allocation_of_blocks(problem, np.cumsum(sizes) - sizes)
