"""Windows of a cluster as it is now: the jobs that wait, and the nodes that are idle."""

from collections.abc import Mapping

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.hostlist import HostlistError
from allocopt.cluster.request import ClusterRequest, Request
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.problems.topology import Job, TopologyProblem


def snapshot(
    cluster: Cluster, requests: Mapping[str, Request], idle: IntArray, hop_cost: float, name: str
) -> tuple[TopologyProblem | PlacementProblem, list[str]]:
    """Return the window of jobs, by id, on the nodes that are idle, and remarks on jobs that are left out.

    Whole nodes on one tree, any of which all jobs may have, are a topology problem of the jobs that fit what is left
    by those before them. Otherwise, and on blocks or a forest, it is a placement problem of all jobs that fit the
    cluster when it is empty. Raises `UsageError` if no job fits, or jobs get nodes side by side only.
    """
    if cluster.topology.is_beside:
        raise UsageError("jobs get nodes side by side in the cluster's rings or toruses, which a window cannot say")
    made: dict[Request, ClusterRequest | str] = {}
    for request in dict.fromkeys(requests.values()):
        try:
            made[request] = request.on(cluster)
        except (InvalidProblemError, HostlistError) as error:
            made[request] = str(error)
    fitting = {job: one for job, asked in requests.items() if not isinstance(one := made[asked], str)}
    distinct = [one for one in made.values() if not isinstance(one, str)]
    # Any so many nodes do for a job, whichever they are.
    is_plain = all(
        one.is_exclusive
        and not any(one.most_groups)
        and (one.room(cluster.capacity) * one.masks * one.least_nodes >= one.tasks).all()
        for one in distinct
    )
    taken, left = [], len(idle)
    for job, one in fitting.items():
        if one.least_nodes <= left:
            taken.append(Job(job, one.least_nodes))
            left -= one.least_nodes
    if not taken:
        raise UsageError(
            f"none of the {len(requests)} jobs fits the {len(idle)} idle nodes" if len(idle) else "no node is idle"
        )
    if is_plain:
        problem = TopologyProblem(cluster.topology.tree, idle, tuple(taken), hop_cost, name)
        return problem, [f"jobs left waiting: {len(requests) - len(taken)}"]
    in_use = np.ones(cluster.size, dtype=np.bool_)
    in_use[idle] = False
    free = np.where(in_use[:, None], 0, cluster.capacity)
    faults = [one for one in made.values() if isinstance(one, str)]
    told = (
        [f"jobs that never fit the cluster, left out: {len(requests) - len(fitting)} ({faults[0]})"] if faults else []
    )
    return PlacementProblem.of(cluster, fitting, free, in_use, hop_cost, name), told
