"""The relocation problem of a Slurm cluster as it is now.

A batch job that Slurm may queue again (``Requeue=1``) may stop or move; all others stay. A job that Slurm stops and
queues again begins anew, wherever it comes back: to stop it costs its nodes, to move it, which gives it new nodes at
once, half of that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.hostlist import HostlistError, expand_hostlist
from allocopt.cluster.request import ClusterRequest, Request
from allocopt.cluster.slurm_jobs import Queue, RunningJob
from allocopt.cluster.unserved import UnservedError, brief
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.relocation.problem import (
    Action,
    PlacedJob,
    Places,
    RelocationProblem,
    Step,
    WaitingGang,
)
from allocopt.problems.topology.side_constraints import level_index

MOVE_SHARE = 0.5  # what a move costs of a stop
FREE_RACKS = "free-racks"  # id of the job that keeps nodes of racks free, and does not start in truth


@dataclass(frozen=True, slots=True)
class Aims:
    """What a relocation is to bring about.

    Parameters
    ----------
    start
        Ids of waiting jobs that must start.
    within
        Level in one group of which each of them has to stay, such as ``leaf``; None if they may be anywhere.
    drained
        Hostlist of the nodes that have to be emptied.
    racks, size
        Number of leaf groups in each of which ``size`` whole nodes have to become free.
    """

    start: tuple[str, ...] = ()
    within: str | None = None
    drained: str = ""
    racks: int = 0
    size: int = 0


def snapshot(cluster: Cluster, queue: Queue, aims: Aims, name: str) -> tuple[RelocationProblem, list[str]]:
    """Return the problem of a cluster and its jobs, and remarks about jobs that are taken otherwise than they say.

    Raises `UsageError` if a job or node that is named does not exist, or nothing is asked for.
    """
    if not (aims.start or aims.drained or aims.racks):
        raise UsageError("nothing is asked for: give --start, --drain or --free-racks")
    found = _Snapshot(cluster)
    for job in queue.running:
        found.add(job)
    waiting = [*_gangs(cluster, queue, aims), *_racks(cluster, aims)]
    problem = RelocationProblem(
        topology=cluster.topology.tree,
        resources=cluster.resources,
        capacity=cluster.capacity,
        running=tuple(found.running),
        waiting=tuple(waiting),
        emptied=_marked(cluster, aims.drained),
        name=name,
    )
    return problem, found.remarks()


class _Snapshot:
    """The running jobs of a cluster, as they are added."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known = frozenset(cluster.topology.nodes)
        self._free = cluster.capacity.copy()
        self._users = np.zeros(cluster.size, dtype=np.int64)
        self._told: Counter[str] = Counter()
        self.running: list[PlacedJob] = []

    def add(self, job: RunningJob) -> None:
        """Add a job, as it asked to be where that agrees with its nodes, else with its nodes as a whole."""
        cluster = self._cluster
        names = [name for name in job.nodes if name in self._known]
        if not names:
            fault = "of which no node is in the cluster's files" if job.nodes else "whose nodes are not given"
            self._told[f"{fault}, left out"] += 1
            return
        nodes = np.sort(np.array(cluster.topology.numbers(names), dtype=np.int64))
        may_leave = job.may_be_requeued and len(names) == len(job.nodes)
        try:
            request = job.requested().on(cluster)
        except UnservedError as error:
            self._told[f"that stay, {brief(error.reason)}"] += 1
            request, may_leave = Request.whole_nodes(len(nodes)).on(cluster), False
        places = self._places(request, nodes)
        if places is None:
            self._told["taken with their nodes as a whole, which they share in a way that is not given"] += 1
            request = Request.whole_nodes(len(nodes)).on(cluster)
            places = self._places(request, nodes)
        if places is None:
            self._told["that share nodes taken as a whole, left out"] += 1
            return
        self._take(request, places)
        cost = float(len(nodes))
        self.running.append(
            PlacedJob(
                id=job.id or f"job-{len(self.running) + 1}",
                request=request,
                places=places,
                stop_cost=cost if may_leave else None,
                move_cost=MOVE_SHARE * cost if may_leave else None,
            )
        )

    def remarks(self) -> list[str]:
        """Return a line for each reason for which jobs are taken otherwise, and how many they are."""
        return [f"running jobs {reason}: {count}" for reason, count in sorted(self._told.items())]

    def _places(self, request: ClusterRequest, nodes: IntArray) -> Places | None:
        """Return the tasks of a job on its nodes; None if they do not fit there beside the jobs before it."""
        is_alone = request.is_exclusive and self._users[nodes].any()
        if is_alone or not request.least_nodes <= len(nodes) <= request.most_nodes:
            return None
        tasks = request.spread(self._free, nodes)
        if int(tasks.sum()) != request.tasks or tasks.min() < 1:
            return None
        return tuple(NodeTasks(node, count) for node, count in zip(nodes.tolist(), tasks.tolist(), strict=True))

    def _take(self, request: ClusterRequest, places: Places) -> None:
        nodes, tasks = np.array(places, dtype=np.int64).T
        used = request.per_node + tasks[:, None] * request.per_task
        self._free[nodes] -= self._free[nodes] if request.is_exclusive else used
        self._users[nodes] += 1


def _gangs(cluster: Cluster, queue: Queue, aims: Aims) -> list[WaitingGang]:
    """Return the waiting jobs that must start."""
    waiting = {job.id: job for job in queue.jobs}
    gangs = []
    for name in aims.start:
        if name not in waiting:
            raise UsageError(f"--start {name}: no job of that id waits")
        try:
            request = waiting[name].request.on(cluster)
        except UnservedError as error:
            raise UsageError(f"--start {name}: the job {error.fault}") from None
        gangs.append(WaitingGang(name, _kept_within(cluster, request, aims.within)))
    return gangs


def _kept_within(cluster: Cluster, request: ClusterRequest, within: str | None) -> ClusterRequest:
    if within is None:
        return request
    try:
        level = level_index(cluster.topology.tree, int(within) if within.isdigit() else within, "--within")
    except InvalidProblemError as error:
        raise UsageError(f"--within {error.fault}") from None
    most = list(request.most_groups)
    most[level] = 1
    return request._replace(most_groups=tuple(most))


def _racks(cluster: Cluster, aims: Aims) -> list[WaitingGang]:
    """Return what keeps whole nodes of racks free: one job, which has a segment in each rack."""
    if not aims.racks:
        return []
    if aims.size < 1:
        raise UsageError("--free-racks needs --size: how many nodes of each rack have to be free")
    levels = len(cluster.topology.tree.hops) - 1
    if not levels:
        raise UsageError("--free-racks: the cluster's files name no racks; give a topology.conf")
    request = Request.whole_nodes(aims.racks * aims.size)
    try:
        asked = request.on(cluster)
    except UnservedError as error:
        raise UsageError(f"--free-racks: the racks together {error.fault}") from None
    segments = (aims.size, *(0,) * (levels - 1))
    return [WaitingGang(FREE_RACKS, asked._replace(segments=segments, most_groups=(0,) * levels))]


def _marked(cluster: Cluster, drained: str) -> BoolArray:
    marked = np.zeros(cluster.size, dtype=np.bool_)
    if drained:
        try:
            marked[cluster.topology.numbers(expand_hostlist(drained))] = True
        except HostlistError as error:
            raise UsageError(f"--drain {drained}: {error}") from None
        except InvalidProblemError as error:
            raise UsageError(f"--drain {drained}: {error.fault}") from None
    return marked


def slurm_commands(steps: Sequence[Step], nodes_of: Mapping[str, str]) -> list[str]:
    """Return the commands of Slurm that do the steps of a relocation, for an operator to read and run.

    A job that leaves its nodes is queued again and held. A job that gets nodes is told to take them, and let go. Each
    command has to be waited for, until the nodes that it frees are idle. What only keeps nodes free has no command.

    Parameters
    ----------
    nodes_of
        Hostlist of each job at the end, by id.
    """
    found: list[str] = []
    held: set[str] = set()
    for action, job in steps:
        if job == FREE_RACKS:
            continue
        if action is not Action.START and job not in held:
            found.append(f"scontrol requeuehold {job}")
            held.add(job)
        if action in (Action.MOVE, Action.START):
            found.append(f"scontrol update JobId={job} ReqNodeList={nodes_of[job]}")
        if action is Action.MOVE:
            found.append(f"scontrol release {job}")
    return found
