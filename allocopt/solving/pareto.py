"""The trade between the cost of the jobs and the fragmentation of what they leave."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from allocopt.errors import UsageError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.protocol import Solver
from allocopt.solving.result import Result, Status
from allocopt.solving.solve import solve


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """An allocation to which none that was found is preferable in both objectives.

    Parameters
    ----------
    cost
        Hop cost of the jobs, penalties included.
    fragmentation
        Hop cost of the leftover nodes, as if they were one job.
    allocation
        The nodes of every job.
    weight
        Weight of the fragmentation under which it was found.
    proved
        Whether it is proved optimal under this weight; then no allocation at all is preferable in both, as long as the
        weight is not 0.
    """

    cost: float
    fragmentation: float
    allocation: Allocation
    weight: float
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
    none between them. Each solve begins at the best of the allocations found before.

    Parameters
    ----------
    problem
        The window; its own weight does not matter.
    weights
        Weights of the fragmentation, not negative.
    solver
        Name of a solver that honours side constraints, or a solver object.
    time_limit
        Seconds for every weight; None for no limit.
    seed
        Fixes every random choice.

    Returns
    -------
    tuple of ParetoPoint
        By rising cost and falling fragmentation; empty where no allocation was found.

    Raises
    ------
    UsageError
        If there is no weight, or the solver does not take the window.
    """
    if not weights:
        raise UsageError("a Pareto front needs at least one weight")
    points: list[ParetoPoint] = []
    for weight in sorted(set(weights)):
        weighted = replace(problem, fragmentation_weight=weight)
        start = min((point.allocation for point in points), key=weighted.objective, default=None)
        result = solve(weighted, solver=solver, time_limit=time_limit, seed=seed, warm_start=start)
        if result.solution is not None:
            points.append(_point(problem, weight, result))
    return _not_dominated(points)


def _point(problem: TopologyProblem, weight: float, result: Result) -> ParetoPoint:
    """Return both objectives of an answer."""
    allocation: Allocation = result.found()
    cost = replace(problem, fragmentation_weight=0.0).objective(allocation)
    return ParetoPoint(cost, problem.fragmentation(allocation), allocation, weight, result.status is Status.OPTIMAL)


def _not_dominated(points: Sequence[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """Keep the points that no other one is as good as in both objectives."""
    kept: list[ParetoPoint] = []
    for point in sorted(points, key=lambda point: (point.cost, point.fragmentation, not point.proved)):
        # Equal allocations differ by the rounding of their sums.
        least = kept[-1].fragmentation if kept else float("inf")
        if point.fragmentation < least - 1e-9 * max(1.0, abs(least) if kept else 1.0):
            kept.append(point)
    return tuple(kept)
