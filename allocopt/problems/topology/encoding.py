"""A topology problem as the plain arrays that kernels and models work on.

Positions ``0 .. m - 1`` stand for the idle nodes in order; only groups that hold an idle node are kept, renumbered.
"""

import itertools

import numpy as np

from allocopt.arrays import Encoding, IntArray
from allocopt.cluster.topology import HopFormula
from allocopt.problems.topology.placement import broken_rule
from allocopt.problems.topology.problem import Allocation, TopologyProblem


def encode(problem: TopologyProblem) -> Encoding:
    """Return the arrays of ``problem``."""
    groups = np.ascontiguousarray(problem.topology.groups_of(problem.idle_nodes))
    for row in groups:
        steps = np.diff(row)
        if (steps < 0).any():
            row[:] = np.unique(row, return_inverse=True)[1]
        else:
            # Where the nodes are numbered from switch to switch, no value has to be looked for.
            row[:] = np.append(0, np.cumsum(steps > 0))
    return encoded(problem, groups, groups.max(axis=1) + 1)


def encoded(problem: TopologyProblem, groups: IntArray, n_groups: IntArray) -> Encoding:
    """Return the arrays of ``problem``, whose groups are numbered from 0 already."""
    formula = HopFormula.of(problem.topology, problem.hop_cost)
    weights = np.array(formula.weights, dtype=np.float64)
    bottom, top, scale = float(formula.bottom), float(formula.top), float(formula.scale)
    return Encoding(groups, n_groups, weights, bottom, top, scale, problem.sizes)


def allocation_at(problem: TopologyProblem, positions: list[IntArray]) -> Allocation:
    """Allocation that gives each job the idle nodes at its positions, wrapped around the circular sequence."""
    m = len(problem.idle_nodes)
    return Allocation(tuple(problem.idle_nodes[np.sort(job_positions % m)] for job_positions in positions))


def allocation_of_blocks(problem: TopologyProblem, starts: IntArray) -> Allocation:
    """Allocation that gives each job the circular block of idle positions that begins at its start."""
    blocks = [start + np.arange(job.nodes) for start, job in zip(starts, problem.jobs, strict=True)]
    return allocation_at(problem, blocks)


def allocation_of_owners(problem: TopologyProblem, owners: IntArray) -> Allocation:
    """Allocation from the job index (or -1) that owns each idle position, shape ``(m,)``."""
    order = np.argsort(owners, kind="stable")
    first = np.searchsorted(owners[order], np.arange(len(problem.jobs) + 1))
    return Allocation(tuple(problem.idle_nodes[np.sort(order[low:high])] for low, high in itertools.pairwise(first)))


def owners_of(problem: TopologyProblem, allocation: Allocation) -> IntArray:
    """Job index (or -1) that owns each idle position, shape ``(m,)``; the inverse of `allocation_of_owners`."""
    owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    for job, nodes in enumerate(allocation.nodes):
        owners[np.searchsorted(problem.idle_nodes, nodes)] = job
    return owners


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
