"""Exact solvers of relocation problems: the program of ``scip``, ``highs`` and ``cp-sat``."""

from typing import ClassVar

from allocopt.problems.relocation.problem import Relocation, RelocationProblem
from allocopt.relocation import RelocationSolver
from allocopt.solving import Run, StopReason
from allocopt.solving.budget import Budget
from formulations.backends.program import Formulation
from formulations.backends.solver import BackEndSolver
from formulations.relocation.cells import placeable
from formulations.relocation.program import RelocationModel


class IntegerRelocation(BackEndSolver[RelocationProblem, RelocationModel], RelocationSolver):
    """The program of a relocation."""

    largest_nonzeros: ClassVar[int] = 4_000_000
    no_model = "nothing can be decided"

    def refusal(self, problem: RelocationProblem) -> str | None:
        # Each piece of a job has a column or two, which stand in five rows or so.
        return super().refusal(problem) or self.too_many(2 * len(placeable(problem)) * problem.size)

    def search(self, problem: RelocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        model = self.tables(problem)
        if model.is_hopeless:
            run.prove_infeasible()
            return StopReason.PROVED
        if model.is_empty():
            return StopReason.COMPLETED
        return self.back_end.solve(problem, run, model, budget, seed, None)

    def tables(self, problem: RelocationProblem) -> RelocationModel:
        return RelocationModel(problem)

    def prepare(self, problem: RelocationProblem, tables: RelocationModel, run: Run) -> Relocation | None:
        return None

    def formulate(self, problem: RelocationProblem, tables: RelocationModel, known: float | None = None) -> Formulation:
        return tables
