"""Solvers of relocation problems: the program of ``scip``, ``highs`` and ``cp-sat``, and ``leave-first``."""

from importlib.util import find_spec
from typing import ClassVar

from allocopt.problems.kind import get_kind
from allocopt.problems.relocation.problem import Relocation, RelocationProblem
from allocopt.relocation import RelocationSolver
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget
from formulations.backends.program import Formulation
from formulations.backends.solver import HIGHS, BackEndSolver
from formulations.relocation.cells import placeable
from formulations.relocation.program import RelocationModel

LARGEST_NONZEROS = 4_000_000


class IntegerRelocation(BackEndSolver[RelocationProblem, RelocationModel], RelocationSolver):
    """The program of a relocation."""

    largest_nonzeros: ClassVar[int] = LARGEST_NONZEROS
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


class LeaveFirst(RelocationSolver):
    """Decide who leaves by the program without the new nodes of those that move, then look for these nodes.

    For problems in which so many jobs may move that the whole program is too large. The bound is that of the smaller
    program; if all that move find nodes, the answer is optimal.
    """

    name: ClassVar[str] = "leave-first"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(), frozenset({Promise.ANYTIME, Promise.BOUND}), f"{LARGEST_NONZEROS:,} nonzeros of the model"
    )

    def is_available(self) -> bool:
        return find_spec(HIGHS.package) is not None

    def refusal(self, problem: RelocationProblem) -> str | None:
        nonzeros = 10 * len(problem.waiting) * problem.size
        if nonzeros > LARGEST_NONZEROS:
            return f"its model would have {nonzeros:,} nonzeros, the largest taken has {LARGEST_NONZEROS:,}"
        return super().refusal(problem)

    def search(self, problem: RelocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        trivial = get_kind(self.kind).trivial(problem)
        if trivial is not None:
            run.offer(trivial)
        model = RelocationModel(problem, leaves_moves_open=True)
        if model.is_hopeless:
            run.prove_infeasible()
            return StopReason.PROVED
        if model.is_empty():
            return StopReason.COMPLETED
        return HIGHS.solve(problem, run, model, budget, seed, None)
