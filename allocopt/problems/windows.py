"""The window of a cluster: jobs whose nodes are chosen together, as a problem of the kind that suits them."""

from collections.abc import Mapping, Sequence

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.request import ClusterRequest
from allocopt.problems.placement.problem import NodeTasks, PlacementProblem, Placements
from allocopt.problems.topology import Allocation, Job, TopologyProblem

WindowProblem = TopologyProblem | PlacementProblem
WindowSolution = Allocation | Placements


def window_problem(
    cluster: Cluster,
    requests: Mapping[str, ClusterRequest],
    free: IntArray,
    used: BoolArray,
    name: str,
    hop_cost: float = 1000.0,
) -> WindowProblem:
    """Return the problem of which nodes some jobs get.

    If every job gets a fixed number of whole nodes, and all may have any of the idle ones, this is a topology problem,
    whose optimum is proved sooner; otherwise it is a placement problem.

    Parameters
    ----------
    cluster
        The machine.
    requests
        What each job asks for, by id; at least one job.
    free
        Free amounts by node, counted as in `Cluster.capacity`, shape ``(nodes, resources)``.
    used
        Whether a job runs on each node, shape ``(nodes,)``.
    name
        Name of the problem.
    hop_cost
        Cost of one hop.

    Raises
    ------
    InvalidProblemError
        If the jobs and nodes do not make a valid problem.
    """
    masks = next(iter(requests.values())).masks
    idle = masks[0] & ~used & (free == cluster.capacity).all(axis=1)
    is_plain = all(
        one.least_nodes == one.most_nodes and np.array_equal(one.masks, masks) and one.takes_any(idle, free)
        for one in requests.values()
    )
    if is_plain and len(masks) == 1:
        jobs = tuple(Job(job, one.least_nodes) for job, one in requests.items())
        return TopologyProblem(cluster.topology.tree, np.flatnonzero(idle), jobs, hop_cost, name)
    return PlacementProblem.of(cluster, requests, free, used, hop_cost, name)


def window_solution(problem: WindowProblem, placed: Sequence[Mapping[int, int]]) -> WindowSolution:
    """Return the solution in which each job of a window, in their order, has so many tasks by node."""
    if isinstance(problem, TopologyProblem):
        return Allocation(tuple(np.array(sorted(one), dtype=np.int64) for one in placed))
    return Placements(tuple(tuple(NodeTasks(*pair) for pair in one.items()) for one in placed))
