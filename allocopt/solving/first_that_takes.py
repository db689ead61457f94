"""A solver that hands a problem to the first of a list of solvers that is installed and takes it."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from allocopt.problems.base import Problem
from allocopt.solving.base import ProblemT, SearchSolver
from allocopt.solving.budget import Budget
from allocopt.solving.part import ask
from allocopt.solving.protocol import IncumbentCallback, Solver, kernels_of
from allocopt.solving.registry import Shortlist
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run


class FirstThatTakes(SearchSolver[ProblemT]):
    """Asks the first solver of ``order`` that is installed and takes the problem; a subclass sets it."""

    order: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self._shortlist = Shortlist()

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
        return self._shortlist.first_that_takes(type(self).order, problem)
