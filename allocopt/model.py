"""A window that is built job by job, on whole nodes of a topology or on nodes of a cluster that jobs share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    """A job of a `Model`: what it asks for, and in which groups its nodes may lie."""

    id: str
    request: Request
    placement: SideConstraints | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of solving a `Model`, with the nodes of every job."""

    problem: WindowProblem
    result: Result
    node_names: tuple[str, ...] = ()  # by number; empty where nodes have none

    def __getitem__(self, job: WindowJob) -> IntArray | tuple[str, ...]:
        """Return the nodes of a job: names where the machine has some, else numbers, shape ``(n,)``.

        A job that found no room beside the others has none. Raises `KeyError` if the job is not of this model,
        `NoSolutionError` if no solution was found.
        """
        at, found = self._place(job), self.result.found()
        nodes = found.nodes[at] if isinstance(found, Allocation) else found.node_sets[at]
        return self._named(nodes) if self.node_names else nodes

    def tasks(self, job: WindowJob) -> Mapping[int | str, int]:
        """Return the tasks of a job by node, named as in `__getitem__`; one on each node of a job of whole nodes."""
        at, found = self._place(job), self.result.found()
        if isinstance(found, Placements):
            places = [(place.node, place.tasks) for place in found.of_jobs[at]]
        else:
            places = [(node, 1) for node in found.nodes[at].tolist()]
        return {self.node_names[node] if self.node_names else node: tasks for node, tasks in places}

    def _place(self, job: WindowJob) -> int:
        ids = [each.id for each in self.problem.jobs]
        if job.id not in ids:
            raise KeyError(job.id)
        return ids.index(job.id)

    def _named(self, nodes: IntArray) -> tuple[str, ...]:
        return tuple(self.node_names[node] for node in nodes.tolist())


@dataclass
class Model:
    """Builder of a window, job by job.

    On a topology, jobs get whole nodes. On a cluster they get what they ask for of the nodes' cores, memory and GPUs,
    in a partition; jobs that all ask for whole nodes, any of which they may have, are solved as on a topology.

    Parameters
    ----------
    machine
        A topology, what `allocopt.read_topology` returns, whose nodes have names, or a cluster.
    idle_nodes
        Numbers of the nodes that may be given away; None for all.
    free, in_use
        What is free on each node of a cluster, counted as in `Cluster.capacity`, shape ``(nodes, resources)``, and
        whether jobs run there, shape ``(nodes,)``; None for what the cluster's description says.
    hop_cost
        Cost of one hop.
    fragmentation_weight
        Cost of the hops of the leftover nodes of a topology, as if they were one job, in hop costs of a job.
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

    def add_job(
        self,
        nodes: int | None = None,
        id: str | None = None,
        *,
        tasks: int | None = None,
        cores: float = 1.0,
        gpus: float = 0.0,
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
            How many nodes it gets; None for any number. Without ``tasks`` it has them whole, for itself.
        id
            Name of the job; None for its number, from 1 on.
        tasks
            How many tasks it has, on nodes that it may share.
        cores, gpus
            What a task has.
        memory_mib
            Memory on each node; None for the default of the partition.
        partition
            Name of its partition; None for the default one.
        request
            All that it asks for, in place of the arguments before.
        within, only_in, not_in, prefer, segments
            Where its nodes may lie, see `SideConstraints`; a level is ``"leaf"``, ``"pod"`` or a number from 1 on.

        Raises
        ------
        UsageError
            If it asks for neither nodes nor tasks, or a topology cannot give what it asks for.
        InvalidProblemError
            If a number is out of range.
        """
        if request is None:
            request = _request(nodes, tasks, cores, gpus, memory_mib, partition)
        is_cluster = isinstance(self.machine, Cluster)
        if not is_cluster and request != Request.whole_nodes(request.least_nodes):
            raise UsageError("on a topology jobs ask for whole nodes; tasks, cores and partitions need a cluster")
        placement = SideConstraints(tuple(only_in), tuple(not_in), within, prefer, tuple(segments))
        made = WindowJob(id or str(len(self.jobs) + 1), request, None if placement == SideConstraints() else placement)
        self.jobs.append(made)
        return made

    def problem(self, strategy: str = "free") -> WindowProblem:
        """Return the window as it is.

        Raises
        ------
        InvalidProblemError
            If its jobs do not fit, contradict the machine, or have the same name; a job that the cluster can never
            serve is named.
        UsageError
            If the fragmentation counts although jobs share nodes, or the strategy is not for them.
        """
        if isinstance(self.machine, Cluster):
            return self._on_cluster(self.machine, strategy)
        tree = self.machine.tree if isinstance(self.machine, NamedTree) else self.machine
        # The problem checks and freezes its nodes: a copy here would be one too many.
        idle = np.arange(tree.size) if self.idle_nodes is None else np.asarray(self.idle_nodes)
        jobs = tuple(Job(one.id, one.request.least_nodes, one.placement) for one in self.jobs)
        return TopologyProblem(
            tree, idle, jobs, self.hop_cost, self.name, Strategy(strategy), self.fragmentation_weight
        )

    def _on_cluster(self, cluster: Cluster, strategy: str) -> WindowProblem:
        free = cluster.free if self.free is None else self.free
        in_use = cluster.in_use if self.in_use is None else self.in_use
        if self.idle_nodes is not None:
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
        posed = window_problem(cluster, requests, free, in_use, self.name, self.hop_cost, placements)
        if isinstance(posed, TopologyProblem):
            return replace(posed, strategy=Strategy(strategy), fragmentation_weight=self.fragmentation_weight)
        if Strategy(strategy) is not Strategy.FREE or self.fragmentation_weight:
            raise UsageError("a strategy, or a weight of the fragmentation, is for jobs that all ask for whole nodes")
        return posed

    def solve(
        self,
        *,
        solver: str | Solver = "auto",
        strategy: str = "free",
        time_limit: float | None = 10.0,
        seed: int = 0,
    ) -> Answer:
        """Solve the window as it is now; see `allocopt.solve`.

        A named solver solves windows of its own kind; see `allocopt.solving.windows.window_solver`.
        """
        problem, machine = self.problem(strategy), self.machine
        named = machine.topology if isinstance(machine, Cluster) else machine
        names = named.nodes if isinstance(named, NamedTree) else ()
        check_window_solver(solver)
        chosen = window_solver(solver, problem.kind)
        return Answer(problem, solve(problem, solver=chosen, time_limit=time_limit, seed=seed), names)


def _request(
    nodes: int | None, tasks: int | None, cores: float, gpus: float, memory_mib: int | None, partition: str | None
) -> Request:
    if nodes is None and tasks is None:
        raise UsageError("a job asks for nodes, tasks or both")
    if tasks is None:
        assert nodes is not None
        return replace(Request.whole_nodes(nodes), partition=partition)
    return Request(
        tasks=tasks,
        least_nodes=nodes or 1,
        most_nodes=nodes,
        cores_per_task=cores,
        gpus_per_task=(("", gpus),) if gpus else (),
        memory_per_node_mib=memory_mib,
        partition=partition,
    )
