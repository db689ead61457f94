"""Placement problems of a cluster as it is now, and synthetic ones with jobs as a university's cluster has them."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import typer

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import CORES, GPUS, MEMORY, THOUSANDTHS, Cluster
from allocopt.cluster.options import FatTreeOptions, HopCost
from allocopt.cluster.request import ClusterRequest, Request
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.problems.placement.problem import PlacementJob, PlacementProblem
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.problems.topology.generate import checked_hop_cost

DEFAULT_TREE = FatTreeOptions()
# Cores of jobs on one node, and nodes with cores on each of those on several, with their shares: a week of UB-HPC.
ONE_NODE = {6: 0.67, 1: 0.12, 40: 0.06, 16: 0.04, 32: 0.04, 8: 0.02, 4: 0.02, 12: 0.02, 20: 0.01}
SEVERAL = {(2, 9): 0.6, (2, 32): 0.1, (4, 32): 0.12, (8, 32): 0.08, (16, 12): 0.05, (4, 8): 0.05}
MIB_PER_CORE = 2800
KINDS = ((0.5, 32, 187_000), (0.9, 40, 187_000), (1.0, 40, 754_000))  # nodes up to a share, their cores and memory
SMALL_NODE, MOST_TRIES = 32, 100  # cores that every node has; jobs that are tried for each node to make it busy
GPU_SHARE, ALONE_SHARE, LIMITED_SHARE = 0.05, 0.3, 0.3  # of nodes, and jobs on one; of jobs on several; of jobs


def synthetic_placement(
    name: str,
    rng: np.random.Generator,
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of waiting jobs.")] = 200,
    busy: Annotated[float, typer.Option(min=0, max=0.95, help="Share of the cores that are in use.")] = 0.7,
    several: Annotated[float, typer.Option(min=0, max=1, help="Share of the jobs that take several nodes.")] = 0.2,
    tree: FatTreeOptions = DEFAULT_TREE,
    hop_cost: HopCost = 1000.0,
) -> PlacementProblem:
    """Draw jobs that share nodes, cores, memory and GPUs, as at UB-HPC; some nodes are busy. Same seed, same files."""
    topology = tree.tree()
    resources = (CORES, MEMORY, GPUS)
    place = np.arange(topology.size) / topology.size
    kind = np.searchsorted([share for share, _, _ in KINDS], place, side="right")
    has_gpus = place >= 1 - GPU_SHARE
    free = np.array([(cores * THOUSANDTHS, mib, 0) for _, cores, mib in KINDS], dtype=np.int64)[kind]
    free[:, 2] = 2 * THOUSANDTHS * has_gpus
    total, in_use = free[:, 0].sum(), np.zeros(topology.size, dtype=np.bool_)
    sets = (np.ones_like(in_use), kind == 0, kind > 0)
    levels = len(topology.hops) - 1
    for _ in range(MOST_TRIES * topology.size):
        if free[:, 0].sum() <= (1 - busy) * total:
            break
        # A running job takes the next nodes with room behind a random one, if there are so many.
        request = _drawn(rng, several, sets, levels)
        room = request.room(free) * request.masks[0] * ~(in_use & request.is_exclusive)
        fits = np.flatnonzero(room >= request.most_tasks)
        if len(fits) < request.least_nodes:
            continue
        chosen = np.roll(fits, -int(rng.integers(len(fits))))[: request.least_nodes]
        used = request.per_node + request.most_tasks * request.per_task
        free[chosen] -= free[chosen] if request.is_exclusive else used
        in_use[chosen] = True
    drawn = (_drawn(rng, several, sets, levels) for _ in range(jobs))
    window = tuple(PlacementJob(str(number), request) for number, request in enumerate(drawn, 1))
    return PlacementProblem(topology, resources, free, in_use, window, checked_hop_cost(hop_cost), name=name)


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
        except InvalidProblemError as error:
            made[request] = str(error)
    fitting = {job: one for job, asked in requests.items() if not isinstance(one := made[asked], str)}
    distinct = [one for one in made.values() if not isinstance(one, str)]
    is_plain = all(one.takes_any(np.ones(cluster.size, dtype=np.bool_), cluster.capacity) for one in distinct)
    taken, left = [], len(idle)
    for job, one in fitting.items():
        if one.least_nodes <= left:
            taken.append(Job(job, one.least_nodes))
            left -= one.least_nodes
    if not len(idle):
        raise UsageError("no node is idle")
    if not taken:
        raise UsageError(f"none of the {len(requests)} jobs fits the {len(idle)} idle nodes")
    if is_plain:
        problem = TopologyProblem(cluster.topology.tree, idle, tuple(taken), hop_cost, name)
        return problem, [f"jobs left waiting: {len(requests) - len(taken)}"]
    in_use = ~np.isin(np.arange(cluster.size), idle)
    free = np.where(in_use[:, None], 0, cluster.capacity)
    faults = [one for one in made.values() if isinstance(one, str)]
    n_out = len(requests) - len(fitting)
    told = [f"jobs that never fit the cluster, left out: {n_out} ({fault})" for fault in faults[:1]]
    return PlacementProblem.of(cluster, fitting, free, in_use, hop_cost, name), told


def _drawn(rng: np.random.Generator, several: float, sets: Sequence[BoolArray], levels: int) -> ClusterRequest:
    nodes, is_alone, gpus = 1, False, 0
    if rng.random() < several:
        nodes, cores = list(SEVERAL)[rng.choice(len(SEVERAL), p=list(SEVERAL.values()))]
        is_alone = bool(rng.random() < ALONE_SHARE)
    else:
        cores = list(ONE_NODE)[rng.choice(len(ONE_NODE), p=list(ONE_NODE.values()))]
        gpus = int(rng.random() < GPU_SHARE)
    is_limited = rng.random() < LIMITED_SHARE and cores <= SMALL_NODE
    nodes_of = sets[int(rng.integers(1, len(sets))) if is_limited else 0]
    per_task = np.array([THOUSANDTHS, MIB_PER_CORE, 0], dtype=np.int64)
    per_node = np.array([0, 0, gpus * THOUSANDTHS], dtype=np.int64)
    tasks = nodes * cores
    return ClusterRequest(
        tasks, nodes, nodes, min(cores, tasks), is_alone, per_task, per_node, nodes_of[None], (0,) * levels, 0
    )
