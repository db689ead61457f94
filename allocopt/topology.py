"""Windows of jobs on a topology: problems, a builder of them, and bases of solvers."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import Topology
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology.placement import Groups, Placement, Preference, Segments
from allocopt.problems.topology.problem import Allocation, Job, TopologyProblem
from allocopt.solving.base import SearchSolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.run import Run
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


class TopologySolver(SearchSolver[TopologyProblem, Allocation]):
    """A solver of topology problems."""

    kind = "topology"

    def takes(self, problem: TopologyProblem) -> bool:
        """Whether it takes the strategy of a problem, and its side constraints, which are for ``free`` alone."""
        able = self.capabilities
        if problem.has_side_constraints and not (able.side_constraints and problem.strategy is Strategy.FREE):
            return False
        return problem.strategy in able.strategies


class OneShot(TopologySolver):
    """A solver of topology problems that builds one allocation.

    A subclass sets ``name`` and, if it is not ``free`` alone, the ``strategies`` whose rules its allocations obey.
    """

    strategies: ClassVar[frozenset[Strategy]] = frozenset({Strategy.FREE})

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self.strategies, frozenset(), "any")

    @abstractmethod
    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Build an allocation that obeys the problem's strategy."""

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        run.offer(self.allocate(problem, np.random.default_rng(seed)))
        return StopReason.COMPLETED


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of solving a `Model`, with the nodes of every job."""

    problem: TopologyProblem
    result: Result[Allocation]
    node_names: tuple[str, ...] = ()  # by number; empty where nodes have none

    def __getitem__(self, job: Job) -> IntArray | tuple[str, ...]:
        """Return the nodes of a job: names where the cluster has some, else numbers, shape ``(n,)``.

        Raises `KeyError` if the job is not of this model, `NoSolutionError` if no allocation was found.
        """
        ids = [each.id for each in self.problem.jobs]
        if job.id not in ids:
            raise KeyError(job.id)
        nodes = self.result.found().nodes[ids.index(job.id)]
        return tuple(self.node_names[node] for node in nodes.tolist()) if self.node_names else nodes


@dataclass
class Model:
    """Builder of a `TopologyProblem`, job by job.

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

    cluster: Topology | NamedTree  # a topology, or what `allocopt.read_topology` returns, whose nodes have names
    idle_nodes: IntArray | Sequence[int] | None = None  # numbers of the nodes that may be given away; None for all
    hop_cost: float = 1000.0
    # Cost of the hops of the leftover nodes, as if they were one job, in hop costs of a job.
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
        segments: Sequence[Segments] = (),
    ) -> Job:
        """Add a job and return it; see `Placement` for where its nodes may lie.

        Without an id it gets its number, from 1 on; a level is ``"leaf"``, ``"pod"`` or a number from 1 on.
        """
        placement = Placement(tuple(only_in), tuple(not_in), within, prefer, tuple(segments))
        job = Job(id or str(len(self.jobs) + 1), nodes, None if placement == Placement() else placement)
        self.jobs.append(job)
        return job

    def problem(self, strategy: str = "free") -> TopologyProblem:
        """Return the window as it is; raise `InvalidProblemError` if its jobs do not fit or contradict the cluster."""
        tree = self.cluster.tree if isinstance(self.cluster, NamedTree) else self.cluster
        # The problem checks and freezes its nodes: a copy here would be one too many.
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


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """An allocation to which none that was found is preferable in both objectives."""

    cost: float  # hop cost of the jobs, penalties included
    fragmentation: float  # hop cost of the leftover nodes, as if they were one job
    allocation: Allocation
    weight: float  # of the fragmentation under which it was found
    # Whether it is proved optimal under this weight; then no allocation at all is preferable in both, as long as the
    # weight is not 0.
    proved: bool


def pareto_front(
    problem: TopologyProblem,
    weights: Sequence[float],
    solver: str | Solver = "auto",
    time_limit: float | None = 10.0,
    seed: int = 0,
) -> tuple[ParetoPoint, ...]:
    """Solve a window under several weights of its fragmentation and keep what is not dominated.

    Minimizing cost + weight * fragmentation finds the allocations on the lower convex hull of the two objectives, and
    none between them. Each solve begins at the best of the allocations found before, and has ``time_limit`` seconds.
    The points come by rising cost; there are none where no allocation was found. Raises `UsageError` if there is no
    weight, or the solver does not honour side constraints.
    """
    if not weights:
        raise UsageError("a Pareto front needs at least one weight")
    points: list[ParetoPoint] = []
    for weight in sorted(set(weights)):
        # A rising weight moves the optimum along the front, so that the best of those found is a near start.
        weighted = replace(problem, fragmentation_weight=weight)
        start = min((point.allocation for point in points), key=weighted.objective, default=None)
        result = solve(weighted, solver=solver, time_limit=time_limit, seed=seed, warm_start=start)
        if result.solution is not None:
            cost = replace(problem, fragmentation_weight=0.0).objective(result.solution)
            left, proved = problem.fragmentation(result.solution), result.status is Status.OPTIMAL
            points.append(ParetoPoint(cost, left, result.solution, weight, proved))
    # Only points stay that no other one is as good as in both objectives.
    kept: list[ParetoPoint] = []
    for point in sorted(points, key=lambda point: (point.cost, point.fragmentation, not point.proved)):
        # Equal allocations differ by the rounding of their sums.
        least = kept[-1].fragmentation if kept else float("inf")
        if point.fragmentation < least - 1e-9 * max(1.0, abs(least) if kept else 1.0):
            kept.append(point)
    return tuple(kept)
