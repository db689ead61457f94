"""Policy ``optimization``: at every scheduling point a knapsack solver selects the jobs that start."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.problems.knapsack.problem import EQUAL_WEIGHTS, LEAST_ESTIMATE_S, KnapsackJob, KnapsackProblem, Reward
from allocopt.simulator.scheduler import Decision, Start
from allocopt.simulator.view import View
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import solve

# The jobs of a problem that is made to see whether objective and weights are such.
_PROBE = (KnapsackJob("probe", {"nodes": 1}, 0.0, 1.0),)


@dataclass(frozen=True, slots=True)
class OptimizationScheduler:
    """The optimization method of the DRAS paper, section 5.1: without reservation and without backfilling.

    At every scheduling point the first waiting jobs, those of the window, are a `KnapsackProblem` with what is free;
    the selected ones start, in the order of the queue. There is one selection per scheduling point: under
    ``capability`` the best one may leave jobs waiting that would fit, and these are looked at again at the next event.

    Raises `UsageError` if a number makes no sense, there is no such objective or solver, or the solver takes no
    knapsacks; `MissingPackageError` if the solver needs a package that is not installed.

    Parameters
    ----------
    window
        Waiting jobs that are looked at, at least 1.
    objective, weights
        ``capability`` (Eq. 1, with the weights w1, w2 and w3) or ``capacity`` (Eq. 2).
    solver
        Name of an installed solver, or a solver object; ``dp`` takes one resource, ``auto`` any number.
    time_limit, iterations
        What it may spend on a selection, in seconds and in steps; None for no limit, and for the solver's default.
    """

    name: ClassVar[str] = "optimization"

    window: int = 50
    objective: str = "capability"
    weights: tuple[float, float, float] = EQUAL_WEIGHTS
    solver: str | Solver = "dp"
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0
    _solver: Solver = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Budget(self.time_limit, self.iterations)
        if self.window < 1:
            raise UsageError(f"the window is {self.window} jobs, must be at least 1")
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")
        if self.objective not in (Reward.CAPABILITY, Reward.CAPACITY):
            raise UsageError(f"the objective is {self.objective!r}, must be capability or capacity")
        try:
            KnapsackProblem({"nodes": 1}, _PROBE, Reward(self.objective), tuple(self.weights))  # type: ignore[arg-type]
        except (InvalidProblemError, TypeError) as error:
            raise UsageError(f"weights must be three numbers w1, w2, w3: {error}") from None
        solver = get_solver(self.solver, None, KnapsackProblem.kind) if isinstance(self.solver, str) else self.solver
        if solver.kind != KnapsackProblem.kind:
            raise UsageError(f"solver {solver.name!r} selects no jobs: it takes no knapsack problems")
        object.__setattr__(self, "_solver", solver)

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start the selected jobs. Raises `UsageError` if the solver does not take so many jobs or resources."""
        window = view.first(self.window)
        fitting = window[view.fitting(window)]
        if not len(fitting):
            return
        problem = self.problem(view, window.tolist())
        result = solve(problem, None, self._solver, self.time_limit, self.seed, iterations=self.iterations)
        selected = window[list(result.found().jobs)].tolist()
        # Nobody is selected only where the weights find nothing in any job; the first that fits keeps time going.
        for job in selected or [int(fitting[0])]:
            yield Start(job)

    def problem(self, view: View, jobs: list[int]) -> KnapsackProblem:
        """Pose the selection from some waiting jobs with what is free now."""

        def named(units: IntArray) -> dict[str, int]:
            return dict(zip(view.platform.resources, units.tolist(), strict=True))

        estimates = np.maximum(view.estimate[jobs], LEAST_ESTIMATE_S).tolist()
        return KnapsackProblem(
            named(view.free),
            tuple(
                KnapsackJob(str(view.ids[job]), named(view.request[job]), view.waited(job), estimate)
                for job, estimate in zip(jobs, estimates, strict=True)
            ),
            Reward(self.objective),
            tuple(self.weights),  # type: ignore[arg-type]
            named(np.asarray(view.platform.total)),
            name=f"queue at {view.now:g} s",
        )
