"""Build the problem of a window: a topology problem if jobs get whole nodes, otherwise a placement problem."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError
from allocopt.problems.placement.problem import NodeTasks, PlacementProblem, Placements
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.problems.topology.side_constraints import SideConstraints, level_index, segment_sizes

WindowProblem = TopologyProblem | PlacementProblem
WindowSolution = Allocation | Placements


def is_topology_window(requests: Collection[ClusterRequest], idle: BoolArray, free: IntArray) -> bool:
    """Return whether the window can be a topology problem.

    It can if each job gets a fixed number of whole nodes, and all jobs may use the same idle nodes.

    Parameters
    ----------
    requests
        What each job asks for; at least one.
    idle
        Whether each node is idle, shape ``(nodes,)``.
    free
        Free amounts of each node, counted as in `Cluster.capacity`, shape ``(nodes, resources)``.
    """
    masks = next(iter(requests)).masks
    return len(masks) == 1 and all(
        one.least_nodes == one.most_nodes and np.array_equal(one.masks, masks) and one.takes_any(idle & masks[0], free)
        for one in requests
    )


def window_problem(
    cluster: Cluster,
    requests: Mapping[str, ClusterRequest],
    free: IntArray,
    used: BoolArray,
    name: str,
    hop_cost: float = 1000.0,
    side_constraints: Mapping[str, SideConstraints] = MappingProxyType({}),
) -> WindowProblem:
    """Return the problem of choosing nodes for the jobs of a window.

    It is a topology problem if the jobs allow it (`is_topology_window`), because its optimum is proved faster, and a
    placement problem otherwise.

    Parameters
    ----------
    cluster
        The machine.
    requests
        What each job asks for, by id; at least one job.
    free
        Free amounts of each node, counted as in `Cluster.capacity`, shape ``(nodes, resources)``.
    used
        Whether a job runs on each node, shape ``(nodes,)``.
    name
        Name of the problem.
    hop_cost
        Cost of one hop.
    side_constraints
        Rules for where the nodes of a job may lie, for the jobs that have some, by id.

    Raises
    ------
    InvalidProblemError
        If the jobs and nodes do not make a valid problem.
    """
    idle = ~used & (free == cluster.capacity).all(axis=1)
    if is_topology_window(requests.values(), idle, free):
        idle &= next(iter(requests.values())).masks[0]
        jobs = tuple(Job(job, one.least_nodes, side_constraints.get(job)) for job, one in requests.items())
        return TopologyProblem(cluster.topology.tree, np.flatnonzero(idle), jobs, hop_cost, name)
    placed = {
        job: _restricted(one, side_constraints[job], cluster.topology.tree, f"job {job}")
        if job in side_constraints
        else one
        for job, one in requests.items()
    }
    return PlacementProblem.of(cluster, placed, free, used, hop_cost, name)


def _restricted(request: ClusterRequest, rules: SideConstraints, topology: Topology, place: str) -> ClusterRequest:
    """Return a request restricted by side constraints; ``place`` names the job in errors."""
    # 0 nodes: the number is not fixed yet, so the problem checks later whether segments divide it.
    rules.check(place, topology, 0)
    if rules.prefer is not None:
        fault = "needs a window in which every job gets whole nodes and all may use the same nodes"
        raise InvalidProblemError(f"{place}.prefer", fault)
    most_groups = list(request.most_groups)
    if rules.within is not None:
        most_groups[level_index(topology, rules.within)] = 1
    segments = segment_sizes(rules.segments, topology) if rules.segments else request.segments
    masks = request.masks & rules.allowed(topology, np.arange(topology.size))
    return request._replace(masks=masks, most_groups=tuple(most_groups), segments=segments)


def window_solution(problem: WindowProblem, placed: Sequence[Mapping[int, int]]) -> WindowSolution:
    """Return the solution in which job i of the window runs ``placed[i][node]`` tasks on each of its nodes."""
    if isinstance(problem, TopologyProblem):
        return Allocation(tuple(np.array(sorted(one), dtype=np.int64) for one in placed))
    return Placements(tuple(tuple(NodeTasks(*pair) for pair in one.items()) for one in placed))
