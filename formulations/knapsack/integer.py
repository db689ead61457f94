"""Solvers ``scip``, ``highs`` and ``cp-sat`` of knapsack problems: the program of `KnapsackModel`, to proof."""

from dataclasses import dataclass
from typing import ClassVar

from allocopt.errors import UsageError
from allocopt.problems.knapsack import KnapsackProblem
from allocopt.problems.knapsack.packing import Gains
from allocopt.solving.base import KnapsackSolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from formulations.integer.base import BackEndSolver, BackEndSpec, ask_child, stop_reason
from formulations.integer.program import BinaryProgram
from formulations.integer.solvers import CP_SAT, HIGHS, SCIP
from formulations.knapsack.program import KnapsackModel, knapsack_nonzeros, largest_units

LARGEST_NONZEROS = 300_000
LARGEST_FLOAT_UNITS = 100_000
"""Capacity up to which a unit too much is more than the tolerances of solvers that compute with floats."""


@dataclass(frozen=True)
class IntegerKnapsack(BackEndSolver, KnapsackSolver):
    """A solver that hands the program of a knapsack to a back end, as `ProgramSolver` does for topology problems."""

    largest_units: ClassVar[int | None] = LARGEST_FLOAT_UNITS

    @property
    def capabilities(self) -> Capabilities:
        """Knapsack problems, to proof."""
        units = "" if self.largest_units is None else f", {self.largest_units:,} free units, common divisors apart"
        return Capabilities(
            frozenset(),
            frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
            f"{LARGEST_NONZEROS:,} nonzeros of the model{units}",
        )

    def refusal(self, problem: KnapsackProblem) -> str | None:
        """Why the problem is too large, or None."""
        too_many = super().refusal(problem)
        if too_many is not None:
            return too_many
        nonzeros, units = knapsack_nonzeros(problem), largest_units(problem)
        if nonzeros > LARGEST_NONZEROS:
            return f"its model would have {nonzeros:,} nonzeros, the largest taken has {LARGEST_NONZEROS:,}"
        if self.largest_units is not None and units > self.largest_units:
            return f"it has {units:,} free units, the most that are told apart are {self.largest_units:,}"
        return None

    def program(self, problem: KnapsackProblem) -> BinaryProgram:
        """Build the whole program of a problem.

        Raises
        ------
        UsageError
            If no job can be selected, so that there is none.
        """
        model = KnapsackModel.of(problem)
        if model.is_empty():
            raise UsageError(f"{problem.name!r} has no model: no job can be selected to its gain")
        return model.program()

    def search(self, problem: KnapsackProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Solve the program of what may be better than greedy selections; see `SearchSolver.search`."""
        self.begin(problem, Gains.of(problem), run)
        if run.is_proved() or run.objective is None:
            return StopReason.PROVED
        model = KnapsackModel.of(problem, run.objective)
        if model.is_empty():
            run.prove(run.objective)
            return StopReason.PROVED
        ask_child(self.back_end, run, model, seed, run.solution, budget.iterations)
        return stop_reason(run.clock, budget)


@dataclass(frozen=True)
class ScipKnapsack(IntegerKnapsack):
    """The program in SCIP."""

    name: ClassVar[str] = "scip"
    back_end: ClassVar[BackEndSpec] = SCIP


@dataclass(frozen=True)
class HighsKnapsack(IntegerKnapsack):
    """The program in HiGHS."""

    name: ClassVar[str] = "highs"
    back_end: ClassVar[BackEndSpec] = HIGHS


@dataclass(frozen=True)
class CpSatKnapsack(IntegerKnapsack):
    """The program in CP-SAT, on integer gains."""

    name: ClassVar[str] = "cp-sat"
    back_end: ClassVar[BackEndSpec] = CP_SAT
    largest_units: ClassVar[int | None] = None
