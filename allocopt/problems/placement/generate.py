"""Make placement problems from the present state of a cluster, or draw them with jobs of a university's cluster."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import CORES, GPUS, MEMORY, THOUSANDTHS, Cluster
from allocopt.cluster.hostlist import fold_hostlist
from allocopt.cluster.options import FatTreeOptions, HopCost
from allocopt.cluster.request import ClusterRequest, Request
from allocopt.cluster.slurm_jobs import QueuedJob
from allocopt.cluster.unserved import UnservedError, brief, counted, over_time
from allocopt.errors import UsageError
from allocopt.problems.placement.problem import PlacementJob, PlacementProblem
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.problems.topology.generate import checked_hop_cost
from allocopt.problems.windows import is_topology_window

DEFAULT_TREE = FatTreeOptions()
# Shares of jobs in a week of UB-HPC: of one-node jobs by cores, of other jobs by nodes and cores per node.
ONE_NODE = {6: 0.67, 1: 0.12, 40: 0.06, 16: 0.04, 32: 0.04, 8: 0.02, 4: 0.02, 12: 0.02, 20: 0.01}
SEVERAL = {(2, 9): 0.6, (2, 32): 0.1, (4, 32): 0.12, (8, 32): 0.08, (16, 12): 0.05, (4, 8): 0.05}
MIB_PER_CORE = 2800
KINDS = ((0.5, 32, 187_000), (0.9, 40, 187_000), (1.0, 40, 754_000))  # cumulative share of nodes, cores, MiB
SMALL_NODE, MOST_TRIES = 32, 100  # cores that every node has; running jobs drawn per node at most
# Share of the nodes, and of the one-node jobs, that have GPUs; share of the jobs on several nodes that are exclusive;
# share of the jobs that are limited to a node set.
GPU_SHARE, ALONE_SHARE, LIMITED_SHARE = 0.05, 0.3, 0.3


def synthetic_placement(
    name: str,
    rng: np.random.Generator,
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of waiting jobs.")] = 200,
    busy: Annotated[float, typer.Option(min=0, max=0.95, help="Share of the cores that are in use.")] = 0.7,
    several: Annotated[float, typer.Option(min=0, max=1, help="Share of the jobs that take several nodes.")] = 0.2,
    tree: FatTreeOptions = DEFAULT_TREE,
    hop_cost: HopCost = 1000.0,
) -> PlacementProblem:
    """Draw jobs that share nodes (cores, memory, GPUs) as at UB-HPC; some nodes are busy. Same seed, same files."""
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
        # A running job takes consecutive nodes with room, from a random one on, if there are enough.
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
    cluster: Cluster, jobs: Sequence[QueuedJob], free: IntArray, hop_cost: float, name: str
) -> tuple[TopologyProblem | PlacementProblem, list[str]]:
    """Return the window of jobs that may start now, and remarks on jobs that are left out.

    Jobs that the cluster can never serve are left out and counted by reason. If all jobs ask for whole nodes and may
    use the same idle nodes, the window is a topology problem of the jobs that fit together, in the order of the queue.
    Otherwise it is a placement problem of all jobs.

    Parameters
    ----------
    cluster
        The cluster; only jobs of a reservation get its nodes.
    jobs
        The waiting jobs, in the order of the queue.
    free
        Free amounts of each node, counted as in `Cluster.capacity`.
    hop_cost, name
        Cost of a hop, and name of the problem.

    Raises
    ------
    UsageError
        If no job fits, or if the cluster gives jobs adjacent nodes only.
    """
    if cluster.topology.is_beside:
        raise UsageError("the cluster gives jobs adjacent nodes of rings or toruses, which a window cannot express")
    requests, remarks = _in_reservations(cluster, jobs)
    requests, late = _within_time(cluster, jobs, requests)
    made: dict[Request, ClusterRequest | UnservedError] = {}
    for request in dict.fromkeys(requests.values()):
        try:
            made[request] = request.on(cluster)
        except UnservedError as error:
            made[request] = _true_reason(request, cluster, error)
    of_job = {job: made[asked] for job, asked in requests.items()} | late
    fitting = {job: one for job, one in of_job.items() if not isinstance(one, UnservedError)}
    reasons = counted(one.reason for one in of_job.values() if isinstance(one, UnservedError))
    remarks += [f"jobs left out, {reason}: {jobs_out}" for reason, jobs_out in reasons]
    components = {job.id: job.together for job in jobs if job.together}
    in_use: BoolArray = np.any(free < cluster.capacity, axis=1)
    if not (free > 0).any():
        raise UsageError("no node is idle")
    if fitting and is_topology_window(fitting.values(), ~in_use, free):
        idle = np.flatnonzero(~in_use & next(iter(fitting.values())).masks[0])
        taken = _taken(fitting, components, len(idle))
        if not taken:
            raise UsageError("; ".join([f"none of the {len(jobs)} jobs fits the {len(idle)} idle nodes", *remarks]))
        problem = TopologyProblem(cluster.topology.tree, idle, tuple(taken), hop_cost, name)
        return problem, [f"jobs left waiting: {len(fitting) - len(taken)}", *remarks]
    # A placement problem would place components of a heterogeneous job independently, so leave them out.
    apart = [job for job in fitting if job in components]
    if apart:
        remarks.append(f"components of heterogeneous jobs, which start together, left out: {len(apart)}")
    whole = {job: one for job, one in fitting.items() if job not in components}
    if not whole:
        raise UsageError("; ".join([f"none of the {len(jobs)} jobs fits the cluster", *remarks]))
    return PlacementProblem.of(cluster, whole, free, in_use, hop_cost, name), remarks


def _true_reason(request: Request, cluster: Cluster, error: UnservedError) -> UnservedError:
    """Return the error of a job that cannot be served.

    If the cluster could serve it with those of its nodes that take no jobs at present, the reason says so.
    """
    try:
        if cluster.complete is not None:
            request.on(cluster.complete)
            reason = f"served only with nodes that take no jobs ({error.reason})"
            return UnservedError(error.place, error.fault, reason)
    except UnservedError:
        pass
    return error


def _taken(fitting: Mapping[str, ClusterRequest], components: Mapping[str, str], left: int) -> list[Job]:
    """Return the jobs that fit into ``left`` nodes together, in order; components of a job only if all fit."""
    groups: dict[str, list[str]] = {}
    for job in fitting:
        groups.setdefault(f"+{components[job]}" if job in components else job, []).append(job)
    taken: list[Job] = []
    for members in groups.values():
        nodes = sum(fitting[job].least_nodes for job in members)
        if nodes <= left:
            taken += [Job(job, fitting[job].least_nodes) for job in members]
            left -= nodes
    return taken


def _in_reservations(cluster: Cluster, jobs: Sequence[QueuedJob]) -> tuple[dict[str, Request], list[str]]:
    """Return the requests of jobs by id, restricted to the nodes that reservations leave them, and remarks."""
    known = {one.name for one in cluster.reservations}
    places = {name: _nodes_of(cluster, name) for name in {job.reservation for job in jobs}}
    requests: dict[str, Request] = {}
    missing: Counter[str] = Counter()
    several = 0
    for job in jobs:
        # Slurm tries the reservations of a list one after the other, which is not modelled.
        if "," in job.reservation:
            several += 1
            continue
        if job.reservation and job.reservation not in known:
            missing[job.reservation] += 1
            continue
        own, shut = places[job.reservation]
        request = replace(job.request, required=own) if own and not job.request.required else job.request
        listed = ",".join(filter(None, (request.excluded, shut)))
        requests[job.id] = replace(request, excluded=listed) if shut else request
    told = ", ".join(f"{brief(name)} {count}" for name, count in sorted(missing.items()))
    fault = f"jobs of reservations that are not given, left out: {missing.total()} ({told})"
    remarks = [f"jobs that name several reservations, which is not modelled, left out: {several}"] if several else []
    return requests, [*remarks, fault] if missing else remarks


def _within_time(
    cluster: Cluster, jobs: Sequence[QueuedJob], requests: Mapping[str, Request]
) -> tuple[dict[str, Request], dict[str, UnservedError]]:
    """Return the requests by id, without partitions whose time limit is too short for the job.

    Also return an error for each job that has no other partition, by id.
    """
    found: dict[str, Request] = {}
    late: dict[str, UnservedError] = {}
    most_s = {one.name: one.most_seconds for one in cluster.partitions if one.most_seconds is not None}
    limits = {job.id: job.limit_s for job in jobs}
    for job, request in requests.items():
        asked_s = limits[job]
        default = cluster.partition(None)
        named = request.partition or (default.name if default else "")
        names = [name.strip() for name in named.split(",")]
        allowed = [name for name in names if asked_s is None or asked_s <= most_s.get(name, math.inf)]
        if not allowed and asked_s is not None:
            late[job] = over_time(asked_s, most_s[names[0]], names[0])
        else:
            found[job] = request if len(allowed) == len(names) else replace(request, partition=",".join(allowed))
    return found, late


def _nodes_of(cluster: Cluster, reservation: str) -> tuple[str, str]:
    """Return the hostlists of the nodes that jobs of a reservation must use, and of those that they must not use."""
    there = set(cluster.topology.nodes)
    held, closed = cluster.reserved(reservation)
    return fold_hostlist(sorted(held & there)), fold_hostlist(sorted(closed & there))


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
