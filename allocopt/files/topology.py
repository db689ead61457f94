"""Topology problems as instance files hold them."""

import numpy as np

from allocopt.cluster.topology import FatTree, Topology, Tree
from allocopt.errors import InvalidProblemError
from allocopt.files.models import FatTreeModel, InstanceModel, TreeModel
from allocopt.files.placement import keys_of, placement_of, short_number
from allocopt.problems.topology import Job, TopologyProblem


def topology_problem(model: InstanceModel) -> TopologyProblem:
    """Make the problem of an instance.

    Raises
    ------
    InvalidProblemError
        If its values contradict each other.
    """
    return TopologyProblem(
        topology=_topology(model.topology),
        idle_nodes=np.array(model.idle_nodes, dtype=np.int64),
        jobs=tuple(Job(job.id, job.nodes, placement_of(job)) for job in model.jobs),
        hop_cost=model.hop_cost,
        name=model.name,
        fragmentation_weight=model.fragmentation_weight,
    )


def topology_keys(problem: TopologyProblem) -> dict[str, object]:
    """Turn a problem into the keys of its instance, behind its name; the strategy is no part of it."""
    optional = {"fragmentation_weight": float(problem.fragmentation_weight)} if problem.fragmentation_weight else {}
    return {
        "topology": _topology_object(problem.topology),
        "idle_nodes": problem.idle_nodes.tolist(),
        "jobs": [{"id": job.id, "nodes": int(job.nodes), **keys_of(job.placement)} for job in problem.jobs],
        "hop_cost": short_number(problem.hop_cost),
        **optional,
    }


def _topology(model: FatTreeModel | TreeModel) -> Topology:
    """Make the cluster."""
    if isinstance(model, TreeModel):
        return Tree.from_levels(model.levels, model.hops, model.pairs)
    return FatTree(model.pods, model.leaves_per_pod, model.nodes_per_leaf, tuple(model.hops), model.pairs)


def _topology_object(topology: Topology) -> dict[str, object]:
    """Turn the cluster into the object that stands in an instance file."""
    options: dict[str, object] = {} if topology.pairs == "ordered" else {"pairs": topology.pairs}
    hops = [int(hop) for hop in topology.hops]
    if isinstance(topology, Tree):
        return {"kind": "tree", "levels": topology.to_levels(), "hops": hops, **options}
    if isinstance(topology, FatTree):
        shape = {field: int(getattr(topology, field)) for field in ("pods", "leaves_per_pod", "nodes_per_leaf")}
        if hops != [2, 4, 6]:
            options = {"hops": hops, **options}
        return {"kind": "fat-tree", **shape, **options}
    raise InvalidProblemError("topology", f"is a {type(topology).__name__}, which instance files cannot hold")
