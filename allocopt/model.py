"""`Model` builds a window job by job, with whole nodes of a topology or shared nodes of a cluster, and solves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.named import NamedTree
from allocopt.cluster.request import Request
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.problems.base import Strategy, check_distinct
from allocopt.problems.placement.problem import Placements
from allocopt.problems.topology.problem import Allocation, Job, TopologyProblem
from allocopt.problems.topology.side_constraints import Groups, Level, Preference, Segments, SideConstraints
from allocopt.problems.windows import WindowProblem, window_problem
from allocopt.solving.protocol import Solver
from allocopt.solving.result import Result
from allocopt.solving.solve import solve
from allocopt.solving.windows import check_window_solver, window_solver


@dataclass(frozen=True, slots=True)
class WindowJob:
    """A job of a `Model`: its request, and the rules for the location of its nodes."""

    id: str
    request: Request
    placement: SideConstraints | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of solving a `Model`, with the nodes of every job."""

    problem: WindowProblem
    result: Result
    node_names: tuple[str, ...] = ()  # by number; empty if nodes have no names

    def __getitem__(self, job: WindowJob) -> IntArray | tuple[str, ...]:
        """Return the nodes of a job: their names if nodes have names, otherwise their numbers, shape ``(n,)``.

        They are empty if the solution leaves the job out. Raises `KeyError` if the job is not in this model, and
        `NoSolutionError` if no solution was found.
        """
        at, found = self._index(job), self.result.found()
        nodes = found.nodes[at] if isinstance(found, Allocation) else found.node_sets[at]
        return self._named(nodes) if self.node_names else nodes

    def tasks(self, job: WindowJob) -> Mapping[int | str, int]:
        """Return the number of tasks on each node of a job; 1 on each if it gets whole nodes.

        Keys are the names or numbers of the nodes, as in `__getitem__`.
        """
        at, found = self._index(job), self.result.found()
        if isinstance(found, Placements):
            places = [(place.node, place.tasks) for place in found.of_jobs[at]]
        else:
            places = [(node, 1) for node in found.nodes[at].tolist()]
        return {self.node_names[node] if self.node_names else node: tasks for node, tasks in places}

    def _index(self, job: WindowJob) -> int:
        ids = [each.id for each in self.problem.jobs]
        if job.id not in ids:
            raise KeyError(job.id)
        return ids.index(job.id)

    def _named(self, nodes: IntArray) -> tuple[str, ...]:
        return tuple(self.node_names[node] for node in nodes.tolist())


@dataclass
class Model:
    """Builder of a window, job by job.

    On a topology, jobs get whole nodes. On a cluster, jobs ask for cores, memory and GPUs of the nodes of a partition.
    If all of them ask for whole nodes and may use the same nodes, the window is solved as on a topology.

    Parameters
    ----------
    machine
        A topology, a topology with node names (the result of `allocopt.read_topology`), or a cluster.
    idle_nodes
        Numbers of the nodes that jobs may get; None for all.
    free
        Free amounts of each node of a cluster, counted as in `Cluster.capacity`, shape ``(nodes, resources)``; None for
        those in the description of the cluster.
    in_use
        Whether jobs run on each node of a cluster, shape ``(nodes,)``; None for what its description states.
    hop_cost
        Cost of one hop.
    fragmentation_weight
        Weight of the hops of the leftover nodes, which count as one job; with 1, they cost as much as a job's hops.
    name
        Name of the problem.

    Examples
    --------
    >>> from allocopt import FatTree
    >>> model = Model(FatTree(2, 2, 4))
    >>> large = model.add_job(4, within="pod")
    >>> small = model.add_job(2)
    >>> answer = model.solve(time_limit=5)
    >>> str(answer.result.status), len(answer[large])
    ('OPTIMAL', 4)
    """

    machine: Topology | NamedTree | Cluster
    idle_nodes: IntArray | Sequence[int] | None = None
    free: IntArray | None = None
    in_use: BoolArray | None = None
    hop_cost: float = 1000.0
    fragmentation_weight: float = 0.0
    name: str = "model"
    jobs: list[WindowJob] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.machine, NamedTree | Cluster) and not hasattr(self.machine, "groups_of"):
            raise UsageError(f"the machine is {self.machine!r}, must be a topology or a cluster")
        if not isinstance(self.machine, Cluster) and (self.free is not None or self.in_use is not None):
            raise UsageError("free and in_use need a cluster; for a topology, give idle_nodes")

    def add_job(
        self,
        nodes: int | None = None,
        id: str | None = None,
        *,
        tasks: int | None = None,
        cores: float | None = None,
        gpus: float | None = None,
        memory_mib: int | None = None,
        partition: str | None = None,
        request: Request | None = None,
        within: Level | None = None,
        only_in: Sequence[Groups] = (),
        not_in: Sequence[Groups] = (),
        prefer: Preference | None = None,
        segments: Sequence[Segments] = (),
    ) -> WindowJob:
        """Add a job and return it.

        Parameters
        ----------
        nodes
            How many nodes it gets; None for any number. Without ``tasks`` it gets whole nodes exclusively.
        id
            Id of the job; None for its number, counted from 1.
        tasks
            How many tasks it has. Its nodes may be shared with other jobs.
        cores, gpus
            Cores and GPUs of each task; None for one core, and no GPU.
        memory_mib
            Memory on each node, only together with ``tasks``; None for the default of the partition.
        partition
            Name of its partition; None for the default one.
        request
            Its request, in place of all arguments above except ``id``.
        within, only_in, not_in, prefer, segments
            Rules for its nodes, see `SideConstraints`; a level is ``"leaf"``, ``"pod"`` or a number from 1 on.

        Raises
        ------
        UsageError
            If there are neither nodes nor tasks, if cores, GPUs or memory are given without tasks, if anything is given
            in addition to a request, or if a topology cannot serve the request.
        InvalidProblemError
            If a number is out of range.
        """
        asked: dict[str, Any] = {"nodes": nodes, "tasks": tasks, "cores": cores, "gpus": gpus}
        asked |= {"memory_mib": memory_mib, "partition": partition}
        given = [name for name, value in asked.items() if value is not None]
        if request is None:
            request = _request(**asked)
        elif given:
            raise UsageError(f"{given[0]} cannot be given together with request, which states all that a job asks for")
        is_cluster = isinstance(self.machine, Cluster)
        if not is_cluster and request != Request.whole_nodes(request.least_nodes):
            raise UsageError("on a topology jobs ask for whole nodes; tasks, cores and partitions need a cluster")
        placement = SideConstraints(tuple(only_in), tuple(not_in), within, prefer, tuple(segments))
        job = WindowJob(id or str(len(self.jobs) + 1), request, None if placement == SideConstraints() else placement)
        self.jobs.append(job)
        return job

    def problem(self, strategy: str = "free") -> WindowProblem:
        """Return the problem of the window with the jobs added so far.

        Raises
        ------
        InvalidProblemError
            If its jobs do not fit, contradict the machine, or have the same id; the error names a job that the cluster
            can never serve.
        UsageError
            If a strategy or a fragmentation weight is given for a placement problem.
        """
        if isinstance(self.machine, Cluster):
            return self._cluster_problem(self.machine, strategy)
        tree = self.machine.tree if isinstance(self.machine, NamedTree) else self.machine
        # The problem checks and freezes its nodes, so no copy is needed here.
        idle = np.arange(tree.size) if self.idle_nodes is None else np.asarray(self.idle_nodes)
        jobs = tuple(Job(one.id, one.request.least_nodes, one.placement) for one in self.jobs)
        return TopologyProblem(
            tree, idle, jobs, self.hop_cost, self.name, _strategy(strategy), self.fragmentation_weight
        )

    def _cluster_problem(self, cluster: Cluster, strategy: str) -> WindowProblem:
        free = cluster.free if self.free is None else np.asarray(self.free)
        in_use = cluster.in_use if self.in_use is None else np.asarray(self.in_use)
        for name, array, shape in (("free", free, cluster.capacity.shape), ("in_use", in_use, (cluster.size,))):
            if array.shape != shape:
                raise InvalidProblemError(name, f"has shape {array.shape}, must have {shape}")
        if self.idle_nodes is not None:
            outside = [node for node in np.asarray(self.idle_nodes).tolist() if not 0 <= node < cluster.size]
            if outside:
                raise InvalidProblemError("idle_nodes", f"node {outside[0]} is outside 0..{cluster.size - 1}")
            is_idle = np.isin(np.arange(cluster.size), self.idle_nodes)
            free, in_use = np.where(is_idle[:, None], free, 0), in_use | ~is_idle
        requests, placements = {}, {}
        for job in self.jobs:
            try:
                requests[job.id] = job.request.on(cluster)
            except InvalidProblemError as error:
                raise InvalidProblemError(f"job {job.id}", error.fault) from None
            if job.placement is not None:
                placements[job.id] = job.placement
        check_distinct("jobs", (job.id for job in self.jobs))
        problem = window_problem(cluster, requests, free, in_use, self.name, self.hop_cost, placements)
        if isinstance(problem, TopologyProblem):
            return replace(problem, strategy=_strategy(strategy), fragmentation_weight=self.fragmentation_weight)
        if _strategy(strategy) is not Strategy.FREE or self.fragmentation_weight:
            raise UsageError(
                "strategy and fragmentation_weight need jobs that all ask for whole nodes and may use the same nodes"
            )
        return problem

    def solve(
        self,
        *,
        solver: str | Solver = "auto",
        strategy: str = "free",
        time_limit: float | None = 10.0,
        seed: int = 0,
        display: bool | TextIO = False,
    ) -> Answer:
        """Solve the window with the jobs added so far; see `allocopt.solve`.

        If the solver does not take windows of this kind, ``auto`` solves it instead; see
        `allocopt.solving.windows.window_solver`.
        """
        problem, machine = self.problem(strategy), self.machine
        named = machine.topology if isinstance(machine, Cluster) else machine
        names = named.nodes if isinstance(named, NamedTree) else ()
        check_window_solver(solver)
        chosen = window_solver(solver, problem.kind)
        result = solve(problem, solver=chosen, time_limit=time_limit, seed=seed, display=display)
        return Answer(problem, result, names)


def _strategy(name: str) -> Strategy:
    if name not in list(Strategy):
        raise UsageError(f"strategy is {name!r}, must be one of {', '.join(Strategy)}")
    return Strategy(name)


def _request(
    nodes: int | None,
    tasks: int | None,
    cores: float | None,
    gpus: float | None,
    memory_mib: int | None,
    partition: str | None,
) -> Request:
    for name, number in (("nodes", nodes), ("tasks", tasks), ("memory_mib", memory_mib)):
        if number is not None and not isinstance(number, int | np.integer):
            raise UsageError(f"{name} is {number!r}, must be a whole number")
    if nodes is None and tasks is None:
        raise UsageError("a job must ask for nodes, tasks or both")
    if tasks is None:
        assert nodes is not None
        if (cores, gpus, memory_mib) != (None, None, None):
            raise UsageError("cores, gpus and memory_mib need tasks: give the number of tasks")
        return replace(Request.whole_nodes(nodes), partition=partition)
    return Request(
        tasks=tasks,
        least_nodes=nodes or 1,
        most_nodes=nodes,
        cores_per_task=1.0 if cores is None else cores,
        gpus_per_task=(("", gpus),) if gpus else (),
        memory_per_node_mib=memory_mib,
        partition=partition,
    )
