"""Placement problems and their solutions: the nodes, shared with other jobs, of each job, and its tasks on each node.

A job has some tasks, and asks for amounts of resources for each task and on each of its nodes. It is placed as a whole
or left out at a cost. Minimize the hop costs of the jobs' node sets, by the formula of topology problems
(`allocopt.cluster.topology.HopFormula`), plus the costs of the jobs that are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray, frozen_integers
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import HopFormula, Topology, hop_costs
from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.notebook import html_table
from allocopt.problems.base import Sense, check_distinct, check_range
from allocopt.problems.topology.problem import LARGEST_HOP_COST, LEAST_HOP_COST

LARGEST_AMOUNT, LARGEST_COUNT, LARGEST_LEFT_OUT_COST = 2**41, 10**7, 1e24
LARGEST_USE = 2**62  # a job uses less than this amount of a node, so that sums of two fit 64 bits


class NodeTasks(NamedTuple):
    """A node of a job, and the number of its tasks there."""

    node: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Placements:
    """The nodes and tasks of every job, sorted by node; empty for a job that is left out."""

    of_jobs: tuple[tuple[NodeTasks, ...], ...]

    def __post_init__(self) -> None:
        found = (sorted(NodeTasks(int(node), int(tasks)) for node, tasks in places) for places in self.of_jobs)
        object.__setattr__(self, "of_jobs", tuple(map(tuple, found)))

    @property
    def node_sets(self) -> list[IntArray]:
        """Nodes of every job."""
        return [np.array([one.node for one in places], dtype=np.int64) for places in self.of_jobs]

    def as_dict(self, problem: "PlacementProblem") -> dict[str, dict[str, int]]:
        """Return tasks by node for each placed job, by id, as the solution file holds them."""
        pairs = zip(problem.jobs, self.of_jobs, strict=True)
        return {job.id: {str(node): tasks for node, tasks in places} for job, places in pairs if places}

    @classmethod
    def from_dict(cls, problem: "PlacementProblem", placed: Mapping[str, Mapping[str, int]]) -> "Placements":
        """Return the placements with these tasks by node and job id.

        Raises `InvalidSolutionError` for an unknown job, or a node that is not a number.
        """
        for unknown in placed.keys() - {job.id for job in problem.jobs}:
            raise InvalidSolutionError(f"job {unknown!r} is not in the instance")
        for job, places in placed.items():
            for node in places:
                if not (node.isascii() and node.isdigit()):
                    raise InvalidSolutionError(f"job {job!r} gets node {node!r}, must be the number of a node")
        found = (placed.get(job.id, {}) for job in problem.jobs)
        return cls(tuple(tuple(NodeTasks(int(node), tasks) for node, tasks in places.items()) for places in found))


@dataclass(frozen=True, slots=True, eq=False)
class PlacementJob:
    """A waiting job and its request, which refers to the numbers of the problem's nodes."""

    id: str
    request: ClusterRequest


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """The problem of placing jobs on nodes that they share.

    Raises `InvalidProblemError`, which names the job or the field, if shapes do not match or a number is out of range.

    Parameters
    ----------
    topology
        Hops between the nodes. If a job must stay in one tree of a forest, or in one block, its request states that.
    resources
        Distinct names of the resources of nodes.
    free
        Free amounts, shape ``(nodes, resources)``. Problems made from a cluster have thousandths of cores and GPUs, and
        MiB of memory (`allocopt.cluster.cluster.Cluster.capacity`).
    in_use
        Whether a job runs on each node, so that no exclusive job may get it, shape ``(nodes,)``.
    jobs
        The waiting jobs, at least one.
    hop_cost
        Cost of one hop.
    left_out_cost
        Cost of a job that is left out. None for more than all hops together can cost, so that as few jobs as possible
        are left out.
    """

    topology: Topology
    resources: tuple[str, ...]
    free: IntArray
    in_use: BoolArray
    jobs: tuple[PlacementJob, ...]
    hop_cost: float = 1000.0
    left_out_cost: float | None = None
    name: str = "unnamed"
    dearest: FloatArray = field(init=False, repr=False)  # most that the hops of each job can cost, shape ``(J,)``
    sufficient_cost: float = field(init=False, repr=False)  # the default of `left_out_cost`

    kind: ClassVar[str] = "placement"
    sense: ClassVar[Sense] = "min"

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", tuple(self.jobs))
        object.__setattr__(self, "free", frozen_integers(self.free))
        shape, levels = (self.topology.size, len(self.resources)), len(self.topology.hops) - 1
        check_distinct("resources", self.resources)
        if self.free.shape != shape:
            fault = f"has shape {self.free.shape}, must be (nodes, resources), here {shape}"
            raise InvalidProblemError("free", fault)
        if self.in_use.shape != shape[:1] or self.in_use.dtype != np.bool_:
            raise InvalidProblemError("in_use", f"must have a bool for each of {shape[0]} nodes")
        for name, amounts in zip(self.resources, self.free.T, strict=True):
            check_amounts(f"free.{name}", amounts)
        if not self.jobs:
            raise InvalidProblemError("jobs", "is empty, must hold at least one job")
        check_distinct("jobs", (job.id for job in self.jobs))
        for index, job in enumerate(self.jobs):
            check_request(f"jobs[{index}]", job.request, self.resources, self.size, levels)
        check_range("hop_cost", self.hop_cost, LEAST_HOP_COST, LARGEST_HOP_COST)
        formula = HopFormula.of(self.topology, self.hop_cost)
        nodes = np.minimum([job.request.most_nodes for job in self.jobs], self.size)
        object.__setattr__(self, "dearest", formula.scale * (formula.top * nodes - formula.bottom))
        object.__setattr__(self, "sufficient_cost", float(self.dearest.sum()) + formula.scale)
        if self.left_out_cost is None:
            object.__setattr__(self, "left_out_cost", self.sufficient_cost)
        check_range("left_out_cost", self.left_out_cost, 0.0, LARGEST_LEFT_OUT_COST)

    def _repr_html_(self) -> str:
        facts = (("nodes", self.size), ("jobs", len(self.jobs)), ("in use", int(self.in_use.sum())))
        return html_table(f"Placement problem {self.name}", facts)

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        requests: Mapping[str, ClusterRequest],
        free: IntArray | None = None,
        in_use: BoolArray | None = None,
        hop_cost: float = 1000.0,
        name: str = "unnamed",
    ) -> "PlacementProblem":
        """Return the problem of jobs, given by id, on a cluster.

        By default, all of the cluster's capacity is free, and no node is in use.
        """
        jobs = tuple(PlacementJob(job, request) for job, request in requests.items())
        used = np.zeros(cluster.size, dtype=np.bool_) if in_use is None else in_use
        free, tree = cluster.capacity if free is None else free, cluster.topology.tree
        return cls(tree, cluster.resources, free, used, jobs, hop_cost, name=name)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.free)

    @property
    def effective_left_out_cost(self) -> float:
        """The smaller of `left_out_cost` and `sufficient_cost`; it makes the same solutions optimal.

        With a larger cost, rounding of sums would hide the cost of hops.
        """
        return min(float(self.left_out_cost or 0.0), self.sufficient_cost)

    def bound_of(self, effective: float) -> float:
        """Return the bound on the objective that follows from a bound with `effective_left_out_cost`."""
        cost, more = self.effective_left_out_cost, float(self.left_out_cost or 0.0) - self.effective_left_out_cost
        if more <= 0.0:
            return effective
        left_out, hops = divmod(max(0.0, effective), cost)
        # All hops together cost less than this, so a larger remainder means that one more job is left out.
        if hops > (float(self.dearest.sum()) + cost) / 2:
            left_out, hops = left_out + 1, 0.0
        return hops + left_out * (cost + more)

    @property
    def groups(self) -> IntArray:
        """Group of every node by level below the top, shape ``(L, nodes)``."""
        return np.ascontiguousarray(self.topology.groups_of(np.arange(self.size)))

    def objective(self, solution: Placements) -> float:
        """Return the objective of a solution, even if it breaks rules."""
        held = [nodes for nodes in solution.node_sets if len(nodes)]
        hops = float(hop_costs(self.topology, self.hop_cost, held).sum()) if held else 0.0
        return hops + (len(self.jobs) - len(held)) * float(self.left_out_cost or 0.0)

    def room(self, job: int) -> IntArray:
        """Return the number of tasks of a job that each node has room for, 0 if forbidden, shape ``(nodes,)``."""
        request = self.jobs[job].request
        room = np.where(request.masks.any(axis=0), request.room(self.free), 0)
        return np.where(self.in_use, 0, room) if request.is_exclusive else room


def check_places(name: str, asked: ClusterRequest, places: Sequence[NodeTasks], groups: IntArray) -> None:
    """Check the nodes and tasks of one job against its request, but not against the free amounts.

    ``name`` is the job in messages. ``groups`` has the group of every node by level below the top, shape
    ``(L, nodes)``. Raises `InvalidSolutionError`.
    """
    # Checked first, because numbers in a file may exceed 64 bits.
    for node, _ in places:
        if not 0 <= node < groups.shape[1]:
            raise InvalidSolutionError(f"{name} gets node {node}, which does not exist")
    placed = sum(tasks for _, tasks in places)
    if placed != asked.tasks or min((tasks for _, tasks in places), default=0) < 1:
        raise InvalidSolutionError(f"{name} has {placed} of {asked.tasks} tasks placed")
    nodes, tasks = np.array(places, dtype=np.int64).T
    if len(np.unique(nodes)) < len(nodes):
        raise InvalidSolutionError(f"{name} gets a node twice")
    if not asked.least_nodes <= len(nodes) <= asked.most_nodes:
        fault = f"gets {len(nodes)} nodes, asks for {asked.least_nodes} to {asked.most_nodes}"
        raise InvalidSolutionError(f"{name} {fault}")
    if tasks.max() > asked.most_tasks:
        fault = f"has {tasks.max()} tasks on a node, at most {asked.most_tasks} are allowed"
        raise InvalidSolutionError(f"{name} {fault}")
    if not asked.masks[:, nodes].all(axis=1).any():
        raise InvalidSolutionError(f"{name} has nodes that do not all lie in one of its node sets")
    for level, most in enumerate(asked.most_groups):
        spanned = len(np.unique(groups[level, nodes]))
        if 0 < most < spanned:
            raise InvalidSolutionError(f"{name} spans {spanned} groups of level {level + 1}, may span {most}")
    for level, size in enumerate(asked.segments):
        if size and (counts := np.bincount(groups[level, nodes]) % size).any():
            group = int(np.flatnonzero(counts)[0])
            held = f"has {(groups[level, nodes] == group).sum()} nodes in group {group} of level {level + 1}"
            raise InvalidSolutionError(f"{name} {held}, must have a multiple of {size}")


def verify_placements(problem: PlacementProblem, solution: Placements) -> float:
    """Return the cost of placements; raise `InvalidSolutionError`, with job or node, if they break a rule."""
    if len(solution.of_jobs) != len(problem.jobs):
        raise InvalidSolutionError(f"there are {len(solution.of_jobs)} placements for {len(problem.jobs)} jobs")
    used = np.zeros_like(problem.free)
    users, alone = (np.zeros(problem.size, dtype=np.int64) for _ in range(2))
    groups = problem.groups
    for job, places in zip(problem.jobs, solution.of_jobs, strict=True):
        if not places:
            continue
        asked = job.request
        check_places(f"job {job.id!r}", asked, places, groups)
        nodes, tasks = np.array(places, dtype=np.int64).T
        used[nodes] += asked.per_node + tasks[:, None] * asked.per_task
        users[nodes] += 1
        alone[nodes] += asked.is_exclusive
        for node in nodes[(alone[nodes] > 0) & ((users[nodes] > 1) | problem.in_use[nodes])].tolist():
            raise InvalidSolutionError(f"node {node} is shared, but a job there is exclusive")
        # Checked after every job, so that no sum exceeds the free amount plus one job's use, which fits 64 bits.
        for place, resource in np.argwhere(used[nodes] > problem.free[nodes]).tolist():
            node = int(nodes[place])
            amounts = f"{used[node, resource]} {problem.resources[resource]}, {problem.free[node, resource]} are free"
            raise InvalidSolutionError(f"jobs use more of node {node} than is free: {amounts}")
    return problem.objective(solution)


def check_request(place: str, asked: ClusterRequest, resources: Sequence[str], size: int, levels: int) -> None:
    """Raise `InvalidProblemError` unless the numbers of a request are valid.

    The cluster has ``size`` nodes and ``levels`` levels below the top. ``place`` names the request in messages.
    """
    check_range(f"{place}.tasks", asked.tasks, 1, LARGEST_COUNT)
    check_range(f"{place}.least_nodes", asked.least_nodes, 1, asked.tasks)
    check_range(f"{place}.most_nodes", asked.most_nodes, asked.least_nodes, asked.tasks)
    check_range(f"{place}.most_tasks", asked.most_tasks, 1, asked.tasks)
    if asked.masks.ndim != 2 or asked.masks.shape[1] != size or not len(asked.masks):
        raise InvalidProblemError(f"{place}.only_in", f"must have at least one set of nodes: a row of {size} booleans")
    for name, amounts in (("per_task", asked.per_task), ("per_node", asked.per_node)):
        if amounts.shape != (len(resources),):
            raise InvalidProblemError(f"{place}.{name}", "must have an amount of each resource")
        check_amounts(f"{place}.{name}", amounts)
    for name, of_task, of_node in zip(resources, asked.per_task.tolist(), asked.per_node.tolist(), strict=True):
        if of_node + asked.most_tasks * of_task >= LARGEST_USE:
            fault = f"{asked.most_tasks} tasks on a node ask for {asked.most_tasks * of_task} {name}"
            raise InvalidProblemError(place, f"{fault}, must be less than 2^62")
    if len(asked.most_groups) != levels or min(asked.most_groups, default=0) < 0:
        fault = f"is {list(asked.most_groups)}, must be {levels} numbers from 0 on, one per level below the top"
        raise InvalidProblemError(f"{place}.most_groups", fault)
    _check_segments(f"{place}.segments", asked, levels)


def _check_segments(place: str, asked: ClusterRequest, levels: int) -> None:
    sizes = [size for size in asked.segments if size]
    if asked.segments and (len(asked.segments) != levels or min(asked.segments) < 0):
        fault = f"is {list(asked.segments)}, must be {levels} numbers from 0 on, one per level below the top"
        raise InvalidProblemError(place, fault)
    for below, above in pairwise(sizes):
        if above % below:
            raise InvalidProblemError(
                place, f"has parts of {below} nodes, must divide the {above} nodes of parts at a higher level"
            )
    if asked.most_nodes // asked.part * asked.part < asked.least_nodes:
        fault = f"has parts of {asked.part} nodes, but the job gets {asked.least_nodes} to {asked.most_nodes} nodes"
        raise InvalidProblemError(place, f"{fault}, and none of these numbers is a multiple")


def check_amounts(place: str, amounts: IntArray) -> None:
    """Raise `InvalidProblemError` unless all amounts are within 0 .. 2^41."""
    check_range(place, int(amounts.min(initial=0)), 0, LARGEST_AMOUNT)
    check_range(place, int(amounts.max(initial=0)), 0, LARGEST_AMOUNT)
