"""Solvers ``scip``, ``highs`` and ``cp-sat`` of knapsack problems: the program of `KnapsackModel`, to proof."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from allocopt.errors import UsageError
from allocopt.problems.gains import Gains
from allocopt.problems.knapsack import KnapsackProblem
from allocopt.solving.base import KnapsackSolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from formulations.integer.backends.child import ChildPool
from formulations.integer.base import BackEndSpec, ask_child, stop_reason
from formulations.integer.export import export_program
from formulations.integer.program import BinaryProgram
from formulations.integer.solvers import CP_SAT, HIGHS, SCIP
from formulations.knapsack.program import KnapsackModel, knapsack_nonzeros, largest_units

LARGEST_NONZEROS = 300_000
LARGEST_FLOAT_UNITS = 100_000
"""Capacity up to which a unit too much is more than the tolerances of solvers that compute with floats."""


@dataclass(frozen=True)
class IntegerKnapsack(KnapsackSolver):
    """A solver that hands the program of a knapsack to a back end, as `ProgramSolver` does for topology problems."""

    back_end: ClassVar[BackEndSpec]
    largest_units: ClassVar[int | None] = LARGEST_FLOAT_UNITS

    _pool: ChildPool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pool", ChildPool(self.back_end.module))

    @property
    def capabilities(self) -> Capabilities:
        """Knapsack problems, to proof."""
        units = "" if self.largest_units is None else f", {self.largest_units:,} free units, common divisors apart"
        return Capabilities(
            frozenset(),
            frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
            f"{LARGEST_NONZEROS:,} nonzeros of the model{units}",
            kinds=frozenset({"knapsack"}),
        )

    @property
    def version(self) -> str:
        """Version of the package that brings the back end; that of the solver in it too, once it has run."""
        return self._pool.version or self.back_end.version()

    def is_available(self) -> bool:
        """Whether the package of the back end is installed."""
        return self.back_end.is_installed()

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

    def export(self, problem: KnapsackProblem, path: Path | str) -> None:
        """Write the program of a problem as ``.mps``, ``.lp``, ``.pb`` or ``.json``; see `export_program`."""
        export_program(self.program(problem), path)

    def search(self, problem: KnapsackProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Solve the program of what may be better than greedy selections; see `SearchSolver.search`."""
        self.begin(problem, Gains.of(problem), run)
        if run.is_proved() or run.objective is None:
            return StopReason.PROVED
        model = KnapsackModel.of(problem, run.objective)
        if model.is_empty():
            run.prove(run.objective)
            return StopReason.PROVED
        ask_child(self._pool, run, model, seed, run.solution, budget.iterations)
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
