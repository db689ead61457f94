"""Solvers of relocation problems: the program of ``scip``, ``highs`` and ``cp-sat``, and ``leave-first``."""

from importlib.util import find_spec
from typing import ClassVar

from allocopt.problems.certificate import Stated
from allocopt.problems.kind import get_kind
from allocopt.problems.relocation.problem import Relocation, RelocationProblem
from allocopt.relocation import RelocationSolver
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget
from formulations.backends.program import Formulation
from formulations.backends.solver import HIGHS, BackEnd, BackEndSolver
from formulations.relocation.cells import placeable
from formulations.relocation.program import RelocationModel

LARGEST_NONZEROS = 4_000_000
LARGEST_RATIO = 1e6  # of two costs
NONZEROS = 2  # for each node and job that may get it; nodes that are counted together have these but once


def _range(problem: RelocationProblem) -> str | None:
    """Return why costs differ too much for solvers that work with tolerances, or None."""
    costs = [cost for job in problem.running for cost in (job.stop_cost, job.move_cost, job.node_cost) if cost]
    costs += [gang.wait_cost for gang in problem.waiting if gang.wait_cost]
    if not costs or max(costs) <= LARGEST_RATIO * min(costs):
        return None
    return f"its costs lie between {min(costs):g} and {max(costs):g}, which differ by more than {LARGEST_RATIO:g}"


def _solved(
    back_end: BackEnd, problem: RelocationProblem, model: RelocationModel, run: Run, budget: Budget, seed: int
) -> StopReason:
    trivial = get_kind(problem.kind).trivial(problem)
    if trivial is not None:
        run.offer(trivial)
    if model.is_hopeless:
        run.prove_infeasible()
        return StopReason.PROVED
    if model.is_empty():
        run.prove(0.0, Stated("the problem: no gang waits, and no job has to leave"))
        return StopReason.PROVED
    return back_end.solve(problem, run, model, budget, seed, run.solution)


class IntegerRelocation(BackEndSolver[RelocationProblem, RelocationModel], RelocationSolver):
    """The program of a relocation."""

    largest_nonzeros: ClassVar[int] = LARGEST_NONZEROS
    no_model = "no gang waits, and no job is on a node to be emptied"

    def refusal(self, problem: RelocationProblem) -> str | None:
        return (
            super().refusal(problem)
            or _range(problem)
            or self.too_many(NONZEROS * len(placeable(problem)) * problem.size)
        )

    def search(self, problem: RelocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        return _solved(self.back_end, problem, RelocationModel(problem), run, budget, seed)

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
        nonzeros = NONZEROS * len(problem.waiting) * problem.size
        if nonzeros > LARGEST_NONZEROS:
            return f"its model would have {nonzeros:,} nonzeros, the largest taken has {LARGEST_NONZEROS:,}"
        return super().refusal(problem) or _range(problem)

    def search(self, problem: RelocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        return _solved(HIGHS, problem, RelocationModel(problem, leaves_moves_open=True), run, budget, seed)
