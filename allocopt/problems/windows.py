"""The window of a cluster: jobs whose nodes are chosen together, as a problem of the kind that suits them."""

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


def have_whole_nodes(requests: Collection[ClusterRequest], idle: BoolArray, free: IntArray) -> bool:
    """Whether jobs get whole nodes in fixed numbers, and all may have the same of the idle ones: a topology problem.

    Idle nodes are told by shape ``(nodes,)``, free amounts by node as in `Cluster.capacity`; there is a job at least.
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
    placements: Mapping[str, SideConstraints] = MappingProxyType({}),
) -> WindowProblem:
    """Return the problem of which nodes some jobs get.

    If the jobs get whole nodes (`have_whole_nodes`), this is a topology problem, whose optimum is proved sooner;
    otherwise it is a placement problem.

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
    placements
        In which groups the nodes of some jobs may lie, by id.

    Raises
    ------
    InvalidProblemError
        If the jobs and nodes do not make a valid problem.
    """
    idle = ~used & (free == cluster.capacity).all(axis=1)
    if have_whole_nodes(requests.values(), idle, free):
        idle &= next(iter(requests.values())).masks[0]
        jobs = tuple(Job(job, one.least_nodes, placements.get(job)) for job, one in requests.items())
        return TopologyProblem(cluster.topology.tree, np.flatnonzero(idle), jobs, hop_cost, name)
    placed = {
        job: _placed(one, placements[job], cluster.topology.tree, f"job {job}") if job in placements else one
        for job, one in requests.items()
    }
    return PlacementProblem.of(cluster, placed, free, used, hop_cost, name)


def _placed(request: ClusterRequest, placement: SideConstraints, topology: Topology, place: str) -> ClusterRequest:
    """Return a request that also keeps the rules of a placement."""
    # Whether the size of segments divides the number of nodes is for the problem to check: a job may get more or fewer.
    placement.check(place, topology, 0)
    if placement.prefer is not None:
        fault = "is for jobs of whole nodes, any of which all jobs of the window may have"
        raise InvalidProblemError(f"{place}.prefer", fault)
    most_groups = list(request.most_groups)
    if placement.within is not None:
        most_groups[level_index(topology, placement.within)] = 1
    segments = segment_sizes(placement.segments, topology) if placement.segments else request.segments
    masks = request.masks & placement.allowed(topology, np.arange(topology.size))
    return request._replace(masks=masks, most_groups=tuple(most_groups), segments=segments)


def window_solution(problem: WindowProblem, placed: Sequence[Mapping[int, int]]) -> WindowSolution:
    """Return the solution in which each job of a window, in their order, has so many tasks by node."""
    if isinstance(problem, TopologyProblem):
        return Allocation(tuple(np.array(sorted(one), dtype=np.int64) for one in placed))
    return Placements(tuple(tuple(NodeTasks(*pair) for pair in one.items()) for one in placed))
