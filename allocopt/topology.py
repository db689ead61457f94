"""Windows of jobs on a topology: problems, a builder of them, and bases of solvers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import Topology
from allocopt.problems.base import Strategy
from allocopt.problems.side import Groups, Placement, Preference, Segments
from allocopt.problems.topology.problem import Allocation, Job, TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.one_shot import OneShot
from allocopt.solving.pareto import ParetoPoint, pareto_front
from allocopt.solving.result import Result
from allocopt.solving.solve import solve

__all__ = [
    "Allocation",
    "Answer",
    "Groups",
    "Job",
    "Model",
    "OneShot",
    "ParetoPoint",
    "Placement",
    "Preference",
    "Segments",
    "Strategy",
    "TopologyProblem",
    "TopologySolver",
    "pareto_front",
]


@dataclass(frozen=True, slots=True)
class Answer:
    """What solving a `Model` gives: the nodes of every job, beside the result.

    Parameters
    ----------
    problem
        What was solved.
    result
        Status, cost, bound and the rest.
    node_names
        Names of the nodes, by number; empty where they have none.
    """

    problem: TopologyProblem
    result: Result[Allocation]
    node_names: tuple[str, ...] = ()

    def __getitem__(self, job: Job) -> IntArray | tuple[str, ...]:
        """Return the nodes of a job: names where the cluster has some, else numbers, shape ``(n,)``.

        Raises
        ------
        KeyError
            If the job is not of this model.
        NoSolutionError
            If no allocation was found.
        """
        ids = [each.id for each in self.problem.jobs]
        if job.id not in ids:
            raise KeyError(job.id)
        nodes = self.result.found().nodes[ids.index(job.id)]
        return tuple(self.node_names[node] for node in nodes.tolist()) if self.node_names else nodes


@dataclass
class Model:
    """Builder of a `TopologyProblem`, job by job.

    Parameters
    ----------
    cluster
        The cluster: a topology, or what `allocopt.read_topology` returns, whose nodes have names.
    idle_nodes
        Numbers of the nodes that may be given away; None for all.
    hop_cost
        Cost of one hop.
    fragmentation_weight
        What the hops of the leftover nodes cost, as if they were one job, in hop costs of a job.
    name
        Name of the window.

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

    cluster: Topology | NamedTree
    idle_nodes: IntArray | Sequence[int] | None = None
    hop_cost: float = 1000.0
    fragmentation_weight: float = 0.0
    name: str = "model"
    jobs: list[Job] = field(default_factory=list, init=False)

    def add_job(
        self,
        nodes: int,
        id: str | None = None,
        *,
        within: int | str | None = None,
        only_in: Sequence[Groups] = (),
        not_in: Sequence[Groups] = (),
        prefer: Preference | None = None,
        segments: Segments | None = None,
    ) -> Job:
        """Add a job and return it; see `Placement` for where its nodes may lie.

        Parameters
        ----------
        nodes
            Number of nodes it asks for.
        id
            Its name; None for its number, from 1 on.
        within
            Level of which all its nodes lie in one group, such as ``"leaf"``, ``"pod"`` or 1.
        only_in, not_in
            Groups that every node, or no node, of the job lies in.
        prefer
            A level within one group of which the job would rather stay.
        segments
            Pieces in which the job comes.
        """
        placement = Placement(tuple(only_in), tuple(not_in), within, prefer, segments)
        job = Job(id or str(len(self.jobs) + 1), nodes, None if placement == Placement() else placement)
        self.jobs.append(job)
        return job

    def problem(self, strategy: str = "free") -> TopologyProblem:
        """Return the window as it is now.

        Raises
        ------
        InvalidProblemError
            If its jobs do not fit, or contradict each other or the cluster.
        """
        tree = self.cluster.tree if isinstance(self.cluster, NamedTree) else self.cluster
        idle = np.arange(tree.size) if self.idle_nodes is None else np.asarray(self.idle_nodes)
        return TopologyProblem(
            tree, idle, tuple(self.jobs), self.hop_cost, self.name, Strategy(strategy), self.fragmentation_weight
        )

    def solve(
        self, strategy: str = "free", solver: str = "auto", time_limit: float | None = 10.0, seed: int = 0
    ) -> Answer:
        """Solve the window as it is now; see `allocopt.solve`."""
        problem = self.problem(strategy)
        names = self.cluster.nodes if isinstance(self.cluster, NamedTree) else ()
        return Answer(problem, solve(problem, None, solver, time_limit, seed), names)
