"""The topology-aware allocation problem of one window, its solution and its verifier (NSA paper, section III)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray, frozen_integers
from allocopt.cluster.topology import Topology, hop_costs
from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.files.faults import shown
from allocopt.notebook import html_table
from allocopt.problems.base import Sense, Strategy, check_distinct, check_range, chosen
from allocopt.problems.topology.side_constraints import SideConstraints

# Outside this range, sums of costs could become too small or too large for the tolerances of the package.
LEAST_HOP_COST, LARGEST_HOP_COST = 1e-6, 1e12
LARGEST_FRAGMENTATION_WEIGHT = 1e6


@dataclass(frozen=True, slots=True)
class Job:
    """A waiting job."""

    id: str
    nodes: int  # number of nodes that it asks for, at least 1
    placement: SideConstraints | None = None  # rules for the groups of its nodes; None for any nodes


@dataclass(frozen=True, slots=True)
class Allocation:
    """The nodes that each job of a window gets, in the order of the problem's jobs."""

    nodes: tuple[IntArray, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(frozen_integers(job_nodes) for job_nodes in self.nodes))

    @classmethod
    def at(cls, problem: "TopologyProblem", positions: Iterable[IntArray]) -> "Allocation":
        """Return the allocation in which each job has the idle nodes at its positions, taken modulo their number."""
        m = len(problem.idle_nodes)
        return cls(tuple(problem.idle_nodes[np.sort(job_positions % m)] for job_positions in positions))

    @classmethod
    def of_blocks(cls, problem: "TopologyProblem", starts: IntArray) -> "Allocation":
        """Return the allocation in which each job has the circular block of idle positions from its start on."""
        blocks = (start + np.arange(job.nodes) for start, job in zip(starts, problem.jobs, strict=True))
        return cls.at(problem, blocks)

    @classmethod
    def of_owners(cls, problem: "TopologyProblem", owners: IntArray) -> "Allocation":
        """Return the allocation in which job ``owners[i]``, or no job if -1, has idle position i, shape ``(m,)``."""
        # Sorting puts the positions without an owner (-1) before those of job 0.
        order = np.argsort(owners, kind="stable")
        first = np.searchsorted(owners[order], np.arange(len(problem.jobs) + 1))
        return cls(tuple(problem.idle_nodes[np.sort(order[low:high])] for low, high in pairwise(first)))

    @classmethod
    def sequential(cls, problem: "TopologyProblem") -> "Allocation":
        """Return the allocation of consecutive idle nodes in the order of the jobs, feasible under every strategy.

        It is "Seq." of Table III of the NSA paper.
        """
        return cls.of_blocks(problem, np.cumsum(problem.sizes) - problem.sizes)

    @classmethod
    def trivial(cls, problem: "TopologyProblem") -> "Allocation | None":
        """Return the sequential allocation, or None if it breaks a rule of a job."""
        allocation = cls.sequential(problem)
        pairs = zip(problem.jobs, allocation.nodes, strict=True)
        is_kept = all(job.placement is None or not job.placement.broken_rule(problem.topology, n) for job, n in pairs)
        return allocation if is_kept else None

    def owners(self, problem: "TopologyProblem") -> IntArray:
        """Return the index of the job that owns each idle position, or -1, shape ``(m,)``; see `of_owners`."""
        owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
        for job, nodes in enumerate(self.nodes):
            owners[np.searchsorted(problem.idle_nodes, nodes)] = job
        return owners

    def as_dict(self, problem: "TopologyProblem") -> dict[str, list[int]]:
        """Return the nodes by job id, as the solution file holds them."""
        return {job.id: nodes.tolist() for job, nodes in zip(problem.jobs, self.nodes, strict=True)}

    @classmethod
    def from_dict(cls, problem: "TopologyProblem", nodes: Mapping[str, Sequence[int]]) -> "Allocation":
        """Return the allocation of nodes by job id; raise `InvalidSolutionError` if a job is missing or unknown."""
        ids = {job.id for job in problem.jobs}
        for unknown in sorted(nodes.keys() - ids):
            raise InvalidSolutionError(f"job {unknown!r} is not in the instance")
        for missing in sorted(ids - nodes.keys()):
            raise InvalidSolutionError(f"job {missing!r} has no nodes")
        return cls(tuple(frozen_integers(nodes[job.id]) for job in problem.jobs))


@dataclass(frozen=True, slots=True, eq=False)
class TopologyProblem:
    """The problem of giving idle nodes to all jobs of a window at the least cost.

    The cost is the sum of the hop costs, the penalties of jobs that are not within one group of their preferred level,
    and the weighted fragmentation of the leftover nodes. Raises `InvalidProblemError`, which names the job or the node,
    if a value breaks a rule below.

    Parameters
    ----------
    idle_nodes
        Distinct nodes that jobs may get, in any order. They are kept sorted: the sequence Q of section III-B.
    jobs
        The jobs of the window, at least one. Together they ask for at most all idle nodes.
    hop_cost
        Cost of one hop, in ``LEAST_HOP_COST .. LARGEST_HOP_COST``; 1000 in Table I.
    fragmentation_weight
        Weight of the hop cost of the leftover nodes, as if they were one job; 0 if it does not count.
    """

    topology: Topology
    idle_nodes: IntArray
    jobs: tuple[Job, ...]
    hop_cost: float = 1000.0
    name: str = "unnamed"
    strategy: Strategy = Strategy.FREE
    fragmentation_weight: float = 0.0

    kind: ClassVar[str] = "topology"
    sense: ClassVar[Sense] = "min"

    def __post_init__(self) -> None:
        if not hasattr(self.topology, "hops"):
            example = "FatTree(pods, leaves_per_pod, nodes_per_leaf)"
            raise InvalidProblemError("topology", f"is {shown(self.topology)}, must be a topology, such as {example}")
        nodes, size = np.asarray(self.idle_nodes), self.topology.size
        if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
            fault = f"has dtype {nodes.dtype} and {nodes.ndim} axes, must list integers"
            raise InvalidProblemError("idle_nodes", fault)
        for index in np.flatnonzero((nodes < 0) | (nodes >= size))[:1].tolist():
            raise InvalidProblemError(f"idle_nodes[{index}]", f"node {nodes[index]} is outside 0..{size - 1}")
        distinct, first = np.unique(nodes, return_index=True)
        for index in np.setdiff1d(np.arange(len(nodes)), first)[:1].tolist():
            raise InvalidProblemError(f"idle_nodes[{index}]", f"node {nodes[index]} is given twice")
        # Sorted: the circular sequence Q of section III-B, by which SCAS and DCAS are defined.
        object.__setattr__(self, "idle_nodes", frozen_integers(distinct))
        object.__setattr__(self, "jobs", tuple(self.jobs))
        object.__setattr__(self, "strategy", chosen("strategy", self.strategy, Strategy))
        _check_jobs(self.jobs, len(self.idle_nodes))
        check_range("hop_cost", self.hop_cost, LEAST_HOP_COST, LARGEST_HOP_COST)
        check_range("fragmentation_weight", self.fragmentation_weight, 0.0, LARGEST_FRAGMENTATION_WEIGHT)
        for index, job in enumerate(self.jobs):
            if job.placement is not None:
                job.placement.check(f"jobs[{index}]", self.topology, job.nodes)

    def _repr_html_(self) -> str:
        facts = (
            ("strategy", str(self.strategy)),
            ("nodes", self.topology.size),
            ("idle nodes", len(self.idle_nodes)),
            ("jobs", len(self.jobs)),
            ("nodes asked for", int(self.sizes.sum())),
            ("hop cost", float(self.hop_cost)),
        )
        return html_table(f"Topology problem {self.name}", facts)

    @property
    def sizes(self) -> IntArray:
        """Number of nodes that each job asks for, shape ``(J,)``."""
        return np.array([job.nodes for job in self.jobs], dtype=np.int64)

    def with_strategy(self, strategy: Strategy | str) -> "TopologyProblem":
        """Return the same window under another strategy."""
        return self if strategy == self.strategy else replace(self, strategy=Strategy(strategy))

    def without_nodes(self, nodes: Iterable[int]) -> "TopologyProblem":
        """Return the same window without some nodes, such as those under maintenance; they need not be idle.

        Raises `InvalidProblemError` if a node does not exist, or if too few nodes remain for the jobs.
        """
        excluded = np.array(sorted(set(nodes)), dtype=np.int64)
        for node in excluded[(excluded < 0) | (excluded >= self.topology.size)]:
            raise InvalidProblemError("excluded_nodes", f"node {node} is outside 0..{self.topology.size - 1}")
        return replace(self, idle_nodes=np.setdiff1d(self.idle_nodes, excluded))

    @property
    def has_side_constraints(self) -> bool:
        """Whether a job has placement rules, or the fragmentation has a weight."""
        are_ruled = any(job.placement not in (None, SideConstraints()) for job in self.jobs)
        return self.fragmentation_weight > 0 or are_ruled

    @property
    def n_left(self) -> int:
        """Number of leftover nodes: idle nodes that no job gets."""
        return len(self.idle_nodes) - sum(job.nodes for job in self.jobs)

    def fragmentation(self, solution: Allocation) -> float:
        """Return the hop cost of the leftover nodes, as if they were one job; 0 if there are none."""
        left = np.setdiff1d(self.idle_nodes, np.concatenate(solution.nodes))
        return float(hop_costs(self.topology, self.hop_cost, [left])[0]) if len(left) else 0.0

    def objective(self, solution: Allocation) -> float:
        """Return the cost of an allocation without empty node sets; raise `InvalidSolutionError` for unknown nodes."""
        # The verifier checks that there is one node set per job.
        pairs = list(zip(self.jobs, solution.nodes, strict=False))
        every = np.concatenate(solution.nodes)
        if not 0 <= every.min() <= every.max() < self.topology.size:
            for job, nodes in pairs:
                for node in nodes[(nodes < 0) | (nodes >= self.topology.size)]:
                    raise InvalidSolutionError(f"job {job.id!r} gets node {node}, which is not idle")
        cost = float(hop_costs(self.topology, self.hop_cost, solution.nodes).sum())
        cost += sum(job.placement.penalty(self.topology, nodes) for job, nodes in pairs if job.placement is not None)
        if self.fragmentation_weight > 0:
            cost += self.fragmentation_weight * self.fragmentation(solution)
        return cost


def _check_jobs(jobs: Sequence[Job], n_idle: int) -> None:
    if not jobs:
        raise InvalidProblemError("jobs", "the window is empty, must hold at least one job")
    for index, job in enumerate(jobs):
        if not isinstance(job, Job):
            raise InvalidProblemError(f"jobs[{index}]", f"is {shown(job)}, must be a Job")
        if not isinstance(job.id, str):
            raise InvalidProblemError(f"jobs[{index}].id", f"is {shown(job.id)}, must be a text")
        if not isinstance(job.placement, SideConstraints | None):
            raise InvalidProblemError(
                f"jobs[{index}].placement", f"is {shown(job.placement)}, must be a SideConstraints"
            )
        if not isinstance(job.nodes, int | np.integer) or job.nodes < 1:
            fault = f"job {job.id!r} asks for {job.nodes} nodes, must be a whole number from 1 on"
            raise InvalidProblemError(f"jobs[{index}].nodes", fault)
    check_distinct("jobs", (job.id for job in jobs))
    asked = sum(job.nodes for job in jobs)
    if asked > n_idle:
        raise InvalidProblemError("jobs", f"ask for {asked} nodes together, but only {n_idle} are idle")


def verify_allocation(problem: TopologyProblem, solution: Allocation) -> float:
    """Return the cost of an allocation; raise `InvalidSolutionError` if it breaks a rule of its strategy or jobs."""
    owners = _owners(problem, solution)
    if problem.strategy is Strategy.SCAS:
        seen: set[int] = set()
        # Around the circle, a block begins where the owner differs from that of the position before. A job with two
        # beginnings is not contiguous.
        for position in np.flatnonzero(owners != np.roll(owners, 1)):
            owner = int(owners[position])
            if owner in seen:
                where = f"it is cut at node {problem.idle_nodes[position]}"
                raise InvalidSolutionError(f"scas: job {problem.jobs[owner].id!r} is not contiguous: {where}")
            if owner >= 0:
                seen.add(owner)
    elif problem.strategy is Strategy.DCAS:
        check_non_crossing(problem, owners)
    for job, nodes in zip(problem.jobs, solution.nodes, strict=True):
        fault = None if job.placement is None else job.placement.broken_rule(problem.topology, nodes)
        if fault is not None:
            raise InvalidSolutionError(f"job {job.id!r} {fault}")
    return problem.objective(solution)


def check_non_crossing(problem: TopologyProblem, owners: IntArray) -> None:
    """Raise `InvalidSolutionError` unless jobs and leftover are a non-crossing partition of the circle.

    This holds if and only if the jobs can be placed in some order, each contiguous in the circular sequence of the
    nodes that are then idle; ``docs/dcas.md`` has the theorem and its proof. ``owners`` has the job index, or -1 for
    the leftover, of every idle position, shape ``(m,)``.
    """
    # Number of positions of every block that are still to come; the leftover (-1) is first.
    left = np.bincount(owners + 1, minlength=len(problem.jobs) + 1)
    open_blocks: list[int] = []
    for position, owner in enumerate(owners.tolist()):
        # As for brackets, a block closes with its last position, and only the innermost open block may continue.
        while open_blocks and left[open_blocks[-1] + 1] == 0:
            open_blocks.pop()
        if owner in open_blocks and open_blocks[-1] != owner:
            one, other = (
                f"job {problem.jobs[block].id!r}" if block >= 0 else "the leftover"
                for block in (owner, open_blocks[-1])
            )
            where = f"dcas: {one} and {other} cross at node {problem.idle_nodes[position]}"
            raise InvalidSolutionError(f"{where}: neither can be placed first")
        if not open_blocks or open_blocks[-1] != owner:
            open_blocks.append(owner)
        left[owner + 1] -= 1


def allocation_order(problem: TopologyProblem, allocation: Allocation) -> tuple[int, ...]:
    """Return an order of placement in which each job's nodes are consecutive in the circular sequence of idle nodes.

    The jobs are sorted by their last node, in the sequence that begins with a leftover node if there is one. So jobs in
    the gaps of another job are placed before it. The allocation must obey all other rules. Raises
    `InvalidSolutionError` if there is no such order.
    """
    owners = allocation.owners(problem)
    check_non_crossing(problem, owners)
    turned = np.roll(owners, -int(np.argmax(owners < 0)))
    last = np.zeros(len(problem.jobs), dtype=np.int64)
    # If an index occurs several times, numpy keeps the last value.
    last[turned[turned >= 0]] = np.flatnonzero(turned >= 0)
    return tuple(np.argsort(last).tolist())


def check_order(problem: TopologyProblem, allocation: Allocation, order: Sequence[str]) -> None:
    """Raise `InvalidSolutionError` unless each job's nodes are consecutive among the idle ones when it is placed.

    ``order`` has the job ids. The allocation must obey all other rules.
    """
    index = {job.id: job_index for job_index, job in enumerate(problem.jobs)}
    missing = dict(index)
    for job_id in order:
        if job_id not in index:
            raise InvalidSolutionError(f"order: job {job_id!r} is not in the instance")
        if missing.pop(job_id, None) is None:
            raise InvalidSolutionError(f"order: job {job_id!r} is named twice")
    for job_id in missing:
        raise InvalidSolutionError(f"order: job {job_id!r} is missing")
    m = len(problem.idle_nodes)
    owners = allocation.owners(problem).tolist()
    after, before = [*range(1, m), 0], [m - 1, *range(m - 1)]
    for place, job_id in enumerate(order, 1):
        job = index[job_id]
        first = last = owners.index(job)
        left = problem.jobs[job].nodes - 1
        while left and owners[before[first]] == job:
            first, left = before[first], left - 1
        while left and owners[after[last]] == job:
            last, left = after[last], left - 1
        if left:
            fault = f"node {problem.idle_nodes[after[last]]} is between its nodes and not yet taken"
            raise InvalidSolutionError(f"order: job {job_id!r}, placed as number {place}, is not contiguous: {fault}")
        after[before[first]], before[after[last]] = after[last], before[first]


def _owners(problem: TopologyProblem, allocation: Allocation) -> IntArray:
    if len(allocation.nodes) != len(problem.jobs):
        raise InvalidSolutionError(f"there are {len(allocation.nodes)} node sets for {len(problem.jobs)} jobs")
    for job, held in zip(problem.jobs, allocation.nodes, strict=True):
        if len(held) != job.nodes:
            raise InvalidSolutionError(f"job {job.id!r} gets {len(held)} nodes, asks for {job.nodes}")
    nodes, jobs = np.concatenate(allocation.nodes), np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    positions = np.searchsorted(problem.idle_nodes, nodes) % len(problem.idle_nodes)
    for index in np.flatnonzero(problem.idle_nodes[positions] != nodes)[:1]:
        raise InvalidSolutionError(f"job {problem.jobs[jobs[index]].id!r} gets node {nodes[index]}, which is not idle")
    owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    owners[positions] = jobs
    if np.count_nonzero(owners >= 0) < len(nodes):
        again = int(np.setdiff1d(np.arange(len(nodes)), np.unique(positions, return_index=True)[1])[0])
        job, other = (problem.jobs[jobs[index]] for index in (again, positions.tolist().index(positions[again])))
        fault = "a node twice" if job is other else f"node {nodes[again]}, which job {other.id!r} has already"
        raise InvalidSolutionError(f"job {job.id!r} gets {fault}")
    return owners
