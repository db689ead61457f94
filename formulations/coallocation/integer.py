"""Solvers ``scip``, ``highs`` and ``cp-sat`` of co-allocation problems: `CoallocationModel`, to proof."""

from dataclasses import dataclass
from typing import ClassVar

from allocopt.errors import UsageError
from allocopt.problems.coallocation.pairs import Pairs
from allocopt.problems.coallocation.problem import Coallocation, CoallocationProblem
from allocopt.solving.base import CoallocationSolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from formulations.coallocation.assignment import assignment_bound, best_assignment
from formulations.coallocation.program import CoallocationModel
from formulations.integer.base import BackEndSolver, BackEndSpec, ask_child, stop_reason
from formulations.integer.program import BinaryProgram
from formulations.integer.solvers import CP_SAT, HIGHS, SCIP

LARGEST_NONZEROS = 500_000


@dataclass(frozen=True)
class IntegerCoallocation(BackEndSolver, CoallocationSolver):
    """A solver that hands the program of a co-allocation to a back end."""

    @property
    def capabilities(self) -> Capabilities:
        """Co-allocation problems, to proof."""
        return Capabilities(
            frozenset(),
            frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
            f"{LARGEST_NONZEROS:,} nonzeros of the model",
        )

    def refusal(self, problem: CoallocationProblem) -> str | None:
        """Why the problem is too large, or None."""
        too_many = super().refusal(problem)
        if too_many is not None or (problem.max_guests == 1 and most_columns(problem) * 2 <= LARGEST_NONZEROS):
            return too_many
        nonzeros = CoallocationModel(problem, Pairs.of(problem)).nonzeros()
        if nonzeros > LARGEST_NONZEROS:
            return f"its model would have {nonzeros:,} nonzeros, the largest taken has {LARGEST_NONZEROS:,}"
        return None

    def program(self, problem: CoallocationProblem) -> BinaryProgram:
        """Build the whole program of a problem.

        Raises
        ------
        UsageError
            If no placement is worth anything, so that there is none.
        """
        model = CoallocationModel(problem, Pairs.of(problem))
        if model.is_empty():
            raise UsageError(f"{problem.name!r} has no model: no guest can be placed to its gain")
        return model.program()

    def search(self, problem: CoallocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Solve the program from the best assignment on, which leaves nothing to do with one guest a host.

        See `SearchSolver.search`.
        """
        pairs = Pairs.of(problem)
        run.offer(Coallocation())
        if not run.clock.expired():
            run.offer(best_assignment(problem, pairs))
            run.prove(assignment_bound(problem, pairs))
        if not run.is_proved():
            self.begin(problem, pairs, run)
        if run.is_proved():
            return StopReason.PROVED
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        ask_child(self.back_end, run, CoallocationModel(problem, pairs), seed, run.solution, budget.iterations)
        return stop_reason(run.clock, budget)


def most_columns(problem: CoallocationProblem) -> int:
    """Most columns that the program of one guest a host has."""
    return len(problem.hosts) * len(problem.guests)


@dataclass(frozen=True)
class ScipCoallocation(IntegerCoallocation):
    """The program in SCIP."""

    name: ClassVar[str] = "scip"
    back_end: ClassVar[BackEndSpec] = SCIP


@dataclass(frozen=True)
class HighsCoallocation(IntegerCoallocation):
    """The program in HiGHS."""

    name: ClassVar[str] = "highs"
    back_end: ClassVar[BackEndSpec] = HIGHS


@dataclass(frozen=True)
class CpSatCoallocation(IntegerCoallocation):
    """The program in CP-SAT, on integer values."""

    name: ClassVar[str] = "cp-sat"
    back_end: ClassVar[BackEndSpec] = CP_SAT
