"""The relocation problem of the present state of a Slurm cluster.

A running batch job that Slurm may requeue (``Requeue=1``) may stop or move; all others stay. A requeued job begins anew
on any nodes. Stopping it costs its number of nodes; moving it costs half, because it gets new nodes at once. Nodes that
take no jobs, such as drained ones, are part of the problem, because jobs may still run there; no job is placed on them.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import CORES, GPUS, MEMORY, THOUSANDTHS, Cluster
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.slurm_jobs import Queue, RunningJob
from allocopt.cluster.unserved import UnservedError, brief
from allocopt.errors import BadFileError, UsageError
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.aims import FREE_RACKS, MOVE_SHARE, Aims
from allocopt.problems.relocation.problem import (
    GETS_NODES,
    Action,
    PlacedJob,
    Places,
    RelocationProblem,
    Step,
    WaitingGang,
)


def snapshot(cluster: Cluster, queue: Queue, aims: Aims, name: str) -> tuple[RelocationProblem, list[str]]:
    """Return the problem of a cluster and its jobs, and remarks about jobs whose records could not be used as written.

    Raises `UsageError` if there is no aim, or if a job or node of the aims does not exist or may not start.
    """
    aims.check()
    if not queue.running:
        raise UsageError("the queue has no running job, so that none can stop or move")
    whole = cluster.complete or cluster
    takes_jobs = np.isin(np.array(whole.topology.nodes), np.array(cluster.topology.nodes))
    reservations = {job.id: job.reservation for job in queue.jobs} | {job.id: job.reservation for job in queue.running}
    found = _Snapshot(whole, reservations)
    for job in queue.running:
        found.add(job)
    capacity = found.capacity()
    found.stay_unlisted(capacity)
    waiting = [*_gangs(whole, queue, aims), *aims.free_racks(whole.topology, len(whole.resources))]
    problem = RelocationProblem(
        topology=whole.topology.tree,
        resources=whole.resources,
        capacity=capacity,
        running=tuple(replace(job, request=found.within(job.id, job.request, takes_jobs)) for job in found.running),
        waiting=tuple(replace(gang, request=found.within(gang.id, gang.request, takes_jobs)) for gang in waiting),
        emptied=aims.emptied(whole.topology),
        name=name,
    )
    return problem, found.remarks()


class _Snapshot:
    """Collects the running jobs of a cluster."""

    def __init__(self, cluster: Cluster, reservations: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._reservations = reservations
        # Whether the files state what is in use on each node.
        self._is_given: BoolArray = np.any(cluster.free < cluster.capacity, axis=1)
        self._known = frozenset(cluster.topology.nodes)
        self._free = cluster.capacity.copy()
        self._users = np.zeros(cluster.size, dtype=np.int64)
        self._is_full, self._is_alone = (np.zeros(cluster.size, dtype=np.bool_) for _ in range(2))
        self._told: Counter[str] = Counter()
        self._ids: set[str] = set()
        self.running: list[PlacedJob] = []

    def add(self, job: RunningJob) -> None:
        """Add a running job; if its resources on its nodes are not known, it stays and the nodes count as full."""
        if job.is_unplaced:
            raise UsageError(f"the nodes of running job {job.id} cannot be read, so it is not known which are free")
        names = sorted({name for name in job.nodes if name in self._known})
        if not names:
            fault = "without a node in the cluster's files" if job.nodes else "whose nodes are not given"
            self._told[f"{fault}, not counted"] += 1
            return
        nodes = np.sort(np.array(self._cluster.topology.numbers(names), dtype=np.int64))
        may_leave, places = bool(job.id) and job.may_be_requeued and len(names) == len(set(job.nodes)), None
        if may_leave and not self._has_reservation(job.id):
            self._told["that stay, because their reservation is not given"] += 1
            may_leave = False
        try:
            fault = "with unknown resources on their nodes"
            if job.is_known:
                request = self._as_allocated(job, job.requested().on(self._cluster), nodes)
                places = self._places(request, nodes)
                if not self._is_certain(request, nodes):
                    places, fault = None, "with unknown resources on each of their nodes"
        except (UnservedError, BadFileError) as error:
            fault = brief(error.reason) if isinstance(error, UnservedError) else "whose record cannot be read"
        if places is not None and self._is_alone[nodes].any():
            places, fault = None, "which share nodes of an exclusive job"
        if places is None:
            self._told[f"that stay, their nodes taken as full, {fault}"] += 1
            request, may_leave = self._unknown(len(nodes)), False
            places = tuple(NodeTasks(node, 1) for node in nodes.tolist())
            self._is_full[nodes] = True
            self._stop_being_alone(nodes)
        self._take(request, places)
        if job.id and job.id in self._ids:
            raise UsageError(f"the queue has two records of running job {job.id}")
        self._ids.add(job.id)
        cost = float(len(nodes))
        self.running.append(
            PlacedJob(
                id=job.id or f"without id, number {len(self.running) + 1}",
                request=request,
                places=places,
                stop_cost=cost if may_leave else None,
                move_cost=MOVE_SHARE * cost if may_leave else None,
            )
        )

    def within(self, job: str, request: ClusterRequest, takes_jobs: BoolArray) -> ClusterRequest:
        """Return the request of a job, limited to nodes that take jobs and that reservations leave to it."""
        held, closed = self._cluster.reserved(self._reservations.get(job, ""))
        names = np.array(self._cluster.topology.nodes)
        allowed = takes_jobs & ~np.isin(names, sorted(closed))
        if held:
            allowed &= np.isin(names, sorted(held))
        return request if allowed.all() else request._replace(masks=request.masks & allowed)

    def _has_reservation(self, job: str) -> bool:
        """Return whether a job has no reservation, or one that the files describe."""
        name = self._reservations.get(job, "")
        return not name or name in {one.name for one in self._cluster.reservations}

    def _is_certain(self, request: ClusterRequest, nodes: IntArray) -> bool:
        """Return whether it is known what a job has on each of its nodes, or what all jobs there use."""
        is_even = request.tasks == len(nodes) * request.most_tasks
        is_whole = request.is_exclusive or len(nodes) == 1
        return is_whole or is_even or bool(self._is_given[nodes].all())

    def capacity(self) -> IntArray:
        """Return the capacity of nodes for the jobs of the problem, without what others use by the cluster's files."""
        told = self._cluster.capacity - self._cluster.free
        others = np.maximum(told - (self._cluster.capacity - self._free), 0)
        # An exclusive job has all of its nodes, regardless of its request. If the jobs of the queue have all cores of a
        # node, no other job can be there: what else the files count as in use is only closed to new jobs.
        others[self._is_alone | (self._free[:, self._cluster.resources.index(CORES)] <= 0)] = 0
        others[self._is_full] = self._free[self._is_full]
        capacity: IntArray = self._cluster.capacity - others
        return capacity

    def stay_unlisted(self, capacity: IntArray) -> None:
        """Add a staying job on each node where, by the cluster's files, more is in use than the queue's jobs have."""
        less = (capacity < self._cluster.capacity).any(axis=1) & ~self._is_full
        nodes = np.flatnonzero(less)
        if len(nodes):
            self._told["that the queue does not list, their nodes taken as full"] += len(nodes)
            self._stop_being_alone(nodes)
        for node in nodes.tolist():
            name = f"unlisted on {self._cluster.topology.nodes[node]}"
            self.running.append(PlacedJob(name, self._unknown(1), (NodeTasks(node, 1),)))

    def remarks(self) -> list[str]:
        """Return a line for each reason why jobs are not used as written, with their number."""
        return [f"running jobs {reason}: {count}" for reason, count in sorted(self._told.items())]

    def _as_allocated(self, job: RunningJob, request: ClusterRequest, nodes: IntArray) -> ClusterRequest:
        """Return a request for all that the job has: its number of nodes, and its cores, memory and GPUs.

        They may exceed its own request. The record of a running job does not state whether it accepts another number
        of nodes.
        """
        request = request._replace(least_nodes=len(nodes), most_nodes=len(nodes))
        if request.is_exclusive:
            return request
        cores = job.allocated_cpus / float(self._cluster.cpus_per_core[nodes].min()) * THOUSANDTHS
        has = {CORES: cores, MEMORY: job.allocated_memory_mib, GPUS: 0.0}
        for kind, count in job.allocated_gpus:
            has[GPUS] += count * THOUSANDTHS
            if kind:
                has[f"{GPUS}:{kind}"] = count * THOUSANDTHS
        per_node = request.per_node.copy()
        for column, name in enumerate(self._cluster.resources):
            asked = request.tasks * int(request.per_task[column]) + len(nodes) * int(request.per_node[column])
            per_node[column] += math.ceil(max(0.0, has.get(name, 0.0) - asked) / len(nodes))
        return request._replace(per_node=per_node)

    def _places(self, request: ClusterRequest, nodes: IntArray) -> Places | None:
        """Return the tasks of a job on its nodes; None if they do not fit there with the jobs added before."""
        is_shared = request.is_exclusive and self._users[nodes].any()
        if is_shared or not request.least_nodes <= len(nodes) <= request.most_nodes:
            return None
        tasks = request.spread(self._free, nodes)
        if int(tasks.sum()) != request.tasks or tasks.min() < 1:
            return None
        return tuple(NodeTasks(node, count) for node, count in zip(nodes.tolist(), tasks.tolist(), strict=True))

    def _unknown(self, nodes: int) -> ClusterRequest:
        """Return a request for nodes without resources; the capacity does not include what unknown jobs use."""
        nothing = np.zeros(len(self._cluster.resources), dtype=np.int64)
        everywhere = np.ones((1, self._cluster.size), dtype=np.bool_)
        levels = len(self._cluster.topology.tree.hops) - 1
        return ClusterRequest(nodes, nodes, nodes, 1, False, nothing, nothing, everywhere, (0,) * levels, 0)

    def _take(self, request: ClusterRequest, places: Places) -> None:
        nodes, tasks = np.array(places, dtype=np.int64).T
        self._free[nodes] -= request.use(tasks)
        self._users[nodes] += 1
        self._is_alone[nodes] |= request.is_exclusive

    def _stop_being_alone(self, nodes: IntArray) -> None:
        """Keep exclusive jobs on these nodes in place, with unknown resources, because the files contradict them."""
        shared = set(nodes[self._is_alone[nodes]].tolist())
        for number, job in enumerate(self.running) if shared else ():
            if job.request.is_exclusive and not shared.isdisjoint(node for node, _ in job.places):
                request = self._unknown(len(job.places))
                self.running[number] = replace(job, request=request, stop_cost=None, move_cost=None)
                own = [node for node, _ in job.places]
                self._is_full[own], self._is_alone[own] = True, False


def _gangs(cluster: Cluster, queue: Queue, aims: Aims) -> list[WaitingGang]:
    """Return the waiting jobs that must start."""
    waiting = {job.id: job for job in queue.jobs}
    gangs = []
    for name in dict.fromkeys(aims.start):
        if name not in waiting:
            parts = [job for job in waiting if re.match(rf"{re.escape(name)}[_+]", job)]
            hint = f"; there are {', '.join(parts[:3])}" if parts else ""
            raise UsageError(f"--start {name}: no job of that id waits{hint}")
        if name in {job.id for job in queue.running}:
            raise UsageError(f"--start {name}: the job still has its nodes from before it was requeued")
        job = waiting[name]
        if job.reservation and job.reservation not in {one.name for one in cluster.reservations}:
            raise UsageError(f"--start {name}: its reservation {job.reservation} is not in the cluster's files")
        if job.waits_for:
            raise UsageError(f"--start {name}: the job may not start now, Slurm gives the reason {job.waits_for}")
        if job.together:
            raise UsageError(f"--start {name}: it is one of the components of job {job.together}, which start together")
        try:
            request = job.request.on(cluster)
        except UnservedError as error:
            raise UsageError(f"--start {name}: the job {error.fault}") from None
        gangs.append(WaitingGang(name, aims.kept_within(cluster.topology, request)))
    return gangs


def slurm_commands(steps: Sequence[Step], nodes_of: Mapping[str, str], drained: str = "") -> list[str]:
    """Return the Slurm commands that carry out a relocation, for an operator to read and run.

    Nodes to be emptied are drained first. A job that leaves its nodes is requeued and held; a stopped job stays held. A
    job that gets nodes has its node list set, and a moved one is released. After each command, wait until the nodes
    that it frees are idle. Nothing keeps other waiting jobs from nodes that become free. Keeping racks free needs no
    command.

    Parameters
    ----------
    steps
        Steps of the relocation.
    nodes_of
        Hostlist of each job at the end, by id.
    drained
        Hostlist of the nodes that have to be emptied.
    """
    found = [f"scontrol update NodeName={drained} State=DRAIN Reason=relocation"] if drained else []
    held: set[str] = set()
    for action, job in steps:
        if job == FREE_RACKS:
            continue
        if action is not Action.START and job not in held:
            found.append(f"scontrol requeuehold {job}")
            held.add(job)
        if action in GETS_NODES:
            found.append(f"scontrol update JobId={job} ReqNodeList={nodes_of[job]}")
        if action is Action.MOVE:
            found.append(f"scontrol release {job}")
    return found
