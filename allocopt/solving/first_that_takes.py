"""A solver that hands a problem to the first of a list of solvers that is installed and takes it."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from allocopt.errors import MissingPackageError
from allocopt.problems.base import Problem
from allocopt.solving.base import ProblemT, SearchSolver
from allocopt.solving.budget import Budget
from allocopt.solving.part import ask
from allocopt.solving.protocol import IncumbentCallback, Solver, kernels_of, takes
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run


class FirstThatTakes(SearchSolver[ProblemT]):
    """Asks the first solver of ``order`` that is installed and takes the problem; a subclass sets it."""

    order: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self._solvers: dict[str, Solver | None] = {}

    def solve(
        self,
        problem: ProblemT,
        budget: Budget,
        seed: int,
        warm_start: Any = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Load the solver before the clock starts; then run it."""
        self._first_that_takes(problem)
        return super().solve(problem, budget, seed, warm_start, on_incumbent)

    def kernels(self, problem: ProblemT) -> Iterable[Callable[..., Any]]:
        """Compiled entries of the solver that takes the problem."""
        solver = self._first_that_takes(problem)
        return () if solver is None else kernels_of(solver, problem)

    def search(self, problem: ProblemT, run: Run, budget: Budget, seed: int) -> StopReason:
        """Let the solver run; see `SearchSolver.search`."""
        solver = self._first_that_takes(problem)
        if solver is None:
            return StopReason.COMPLETED
        return ask(solver, problem, run.clock.grant(1.0, budget.iterations, budget.gap), seed, problem, run)

    def _first_that_takes(self, problem: Problem) -> Solver | None:
        """Return the first solver of the list that is there and takes the problem."""
        there = (solver for name in type(self).order if (solver := self._solver(name)) is not None)
        return next((solver for solver in there if takes(solver, problem) and solver.refusal(problem) is None), None)

    def _solver(self, name: str) -> Solver | None:
        """Return a solver of the list, made once; None where what it needs is not installed."""
        if name not in self._solvers:
            try:
                solver = get_solver(name)
            except MissingPackageError:
                self._solvers[name] = None
            else:
                self._solvers[name] = solver if solver.is_available() else None
        return self._solvers[name]
