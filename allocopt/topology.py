"""Windows of jobs on a topology: problems, base classes of solvers, and Pareto fronts."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology.problem import Allocation, Job, TopologyProblem
from allocopt.problems.topology.side_constraints import Groups, Preference, Segments, SideConstraints
from allocopt.solving.base import SearchSolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Solver
from allocopt.solving.result import Status, StopReason
from allocopt.solving.run import Run
from allocopt.solving.solve import solve

__all__ = [
    "Allocation",
    "Groups",
    "Job",
    "OneShot",
    "ParetoPoint",
    "Preference",
    "Segments",
    "SideConstraints",
    "Strategy",
    "TopologyProblem",
    "TopologySolver",
    "pareto_front",
]


class TopologySolver(SearchSolver[TopologyProblem, Allocation]):
    """A solver of topology problems."""

    kind = "topology"

    def takes(self, problem: TopologyProblem) -> bool:
        """Return whether the solver takes the strategy and the side constraints of a problem; these need ``free``."""
        able = self.capabilities
        if problem.has_side_constraints and not (able.side_constraints and problem.strategy is Strategy.FREE):
            return False
        return problem.strategy in able.strategies


class OneShot(TopologySolver):
    """A solver of topology problems that builds one allocation.

    A subclass sets ``name``, and the ``strategies`` whose rules its allocations obey if these are not only ``free``.
    """

    strategies: ClassVar[frozenset[Strategy]] = frozenset({Strategy.FREE})

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self.strategies, frozenset(), "any")

    @abstractmethod
    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Return an allocation that obeys the problem's strategy."""

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        run.offer(self.allocate(problem, np.random.default_rng(seed)))
        return StopReason.COMPLETED


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """An allocation that is not dominated: no other one found is better in both objectives."""

    cost: float  # hop cost of the jobs, penalties included
    fragmentation: float  # hop cost of the leftover nodes, as if they were one job
    allocation: Allocation
    weight: float  # weight of the fragmentation with which it was found
    # Whether it is proved optimal with this weight. Then, if the weight is not 0, no allocation at all is better in
    # both objectives.
    proved: bool


def pareto_front(
    problem: TopologyProblem,
    weights: Sequence[float],
    solver: str | Solver = "auto",
    time_limit: float | None = 10.0,
    seed: int = 0,
) -> tuple[ParetoPoint, ...]:
    """Solve a window with several weights of its fragmentation; return the allocations that are not dominated.

    Minimizing cost + weight * fragmentation finds only allocations on the lower convex hull of the two objectives. Each
    solve starts from the best allocation found before, and has ``time_limit`` seconds. The points are ordered by cost;
    there are none if no allocation was found. Raises `UsageError` if there is no weight, or if the solver does not
    honour side constraints.
    """
    if not weights:
        raise UsageError("a Pareto front needs at least one weight")
    points: list[ParetoPoint] = []
    for weight in sorted(set(weights)):
        # With the weight the optimum moves along the front, so the best allocation found before is a good start.
        weighted = replace(problem, fragmentation_weight=weight)
        start = min((point.allocation for point in points), key=weighted.objective, default=None)
        result = solve(weighted, solver=solver, time_limit=time_limit, seed=seed, warm_start=start)
        if result.solution is not None:
            cost = replace(problem, fragmentation_weight=0.0).objective(result.solution)
            left, proved = problem.fragmentation(result.solution), result.status is Status.OPTIMAL
            points.append(ParetoPoint(cost, left, result.solution, weight, proved))
    # Keep only points that no other point equals or beats in both objectives.
    kept: list[ParetoPoint] = []
    for point in sorted(points, key=lambda point: (point.cost, point.fragmentation, not point.proved)):
        # Objectives of equal allocations may differ by rounding.
        least = kept[-1].fragmentation if kept else float("inf")
        if point.fragmentation < least - 1e-9 * max(1.0, abs(least) if kept else 1.0):
            kept.append(point)
    return tuple(kept)
