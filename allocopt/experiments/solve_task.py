"""Cells that solve an instance."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar

from allocopt.errors import AllocoptError, UsageError
from allocopt.files.writing import compact_json
from allocopt.problems.base import Problem
from allocopt.problems.instances import shipped_problems
from allocopt.report.rows import SolveRow
from allocopt.solving.protocol import Solver
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import solve

PATIENCE_S = 300.0
"""Seconds that a cell may take beside its solve."""


@dataclass(frozen=True, slots=True)
class SolveTask:
    """A solver on an instance, with one seed.

    Parameters
    ----------
    instance, kind
        Name and kind of the instance.
    strategy
        The strategy; None where the kind has none.
    solver, options
        Name of the solver, and its options as JSON.
    seed
        The seed.
    time_limit_s, iterations, gap_limit
        What it may spend, and the gap at which it may stop.
    """

    columns: ClassVar[Sequence[str]] = (
        *(field.name for field in fields(SolveRow)),
        *("options", "time_limit_s", "iterations", "gap_limit", "solver_version", "error"),
    )

    instance: str
    kind: str
    strategy: str | None
    solver: str
    options: str
    seed: int
    time_limit_s: float | None
    iterations: int | None
    gap_limit: float

    @property
    def deadline_s(self) -> float | None:
        """Three times the time limit, and what loading and compiling may take; None without a limit."""
        return None if self.time_limit_s is None else 3.0 * self.time_limit_s + PATIENCE_S

    def asked(self) -> dict[str, Any]:
        """Return what is asked for, by column."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def run(self, given: Problem) -> dict[str, Any]:
        """Solve the instance; the answer is verified."""
        solver = _warm_solver(self.solver, self.options, self.kind, self.strategy)
        result = solve(
            given, self.strategy, solver, self.time_limit_s, self.seed, iterations=self.iterations, gap=self.gap_limit
        )
        row = SolveRow.of(given, result).as_dict()
        # The row's own names stay those that were asked for: a portfolio answers under its part's.
        return {**row, **self.asked(), "solver_version": result.version}


def made_solver(name: str, options: str, kind: str) -> Solver:
    """Make a solver of its name and its options as JSON."""
    from json import loads

    return get_solver(name, loads(options), kind)


def options_text(options: dict[str, Any]) -> str:
    """Write options as JSON, the same for the same options.

    Raises
    ------
    UsageError
        If a value is not one of JSON, such as a date.
    """
    try:
        return compact_json(dict(sorted((name.replace("-", "_"), value) for name, value in options.items())))
    except (TypeError, ValueError):
        raise UsageError("options must be finite numbers, texts, true, false, or lists and tables of these") from None


@cache
def _warm_solver(name: str, options: str, kind: str, strategy: str | None) -> Solver:
    """Make a solver, and let it solve something small, so that no time includes loading kernels; kept for later."""
    solver = made_solver(name, options, kind)
    with suppress(AllocoptError):
        for problem in shipped_problems(kind)[:1]:
            solve(problem, strategy, solver, 5.0, iterations=1)
    return solver
