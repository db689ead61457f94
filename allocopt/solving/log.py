"""The log of a solve: a header, a line for each improvement, and a footer, as mixed-integer solvers print it."""

import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TextIO

from allocopt.errors import UsageError
from allocopt.problems.base import Problem, Sense
from allocopt.problems.kind import ProblemKind, kind_of, shown_objective
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import IncumbentCallback, Solver
from allocopt.solving.result import Incumbent, Result, Status, gap_between, sign_of
from allocopt.version import __version__

HEADINGS = ("time s", "objective", "bound", "gap %", "by")
FULL_LINES, LEAST_S = 20, 1.0
"""The first `FULL_LINES` improvements have a line each; later ones have at most one line in `LEAST_S` seconds."""
QUIET_S = 5.0  # seconds without a line after which the current values are printed again
LARGE_GAP = 10.0  # from which on a gap is not printed as a number
WIDTH = 80  # columns of a terminal; longer facts continue on a second line


class NoLog:
    """The log of a solve that prints nothing."""

    def begin(self, solver: Solver, budget: Budget, seed: int) -> None:
        """Print problem, solver and limits."""

    def callback(self, given: IncumbentCallback | None) -> IncumbentCallback | None:
        """Return a callback that prints incumbents and passes them on to the given one."""
        return given

    def budget(self, given: Budget) -> Budget:
        """Return the same limits; a solver that checks them prints a line if there has been none for a while."""
        return given

    def end(self, result: Result) -> None:
        """Print a verified result."""


class SolveLog(NoLog):
    """The log of one solve; each line is flushed.

    ``out`` is a text stream; None for standard output.
    """

    def __init__(self, problem: Problem, out: TextIO | None = None) -> None:
        self._problem = problem
        self._out = sys.stdout if out is None else out
        self._last: Incumbent | None = None
        self._arrived = self._printed = 0.0  # when the last incumbent arrived and the last line was printed
        self._line = ""  # the last line without its time
        self._n_lines = 0

    def begin(self, solver: Solver, budget: Budget, seed: int) -> None:
        problem, kind = self._problem, kind_of(self._problem)
        iterations = "" if budget.iterations is None else f"{budget.iterations:,} iterations"
        limits = (
            "no time limit" if budget.seconds is None else f"{budget.seconds:g} s",
            iterations,
            f"gap {100.0 * budget.gap:g} %" if budget.gap else "",
            f"seed {seed}",
        )
        facts = {
            "problem": _listed(
                f"{problem.name}: {problem.kind}", kind.strategy_of(problem) or "", kind.size_of(problem)
            ),
            "objective": _aim(problem.sense, kind.objective),
            "solver": f"{solver.name} ({solver.version})",
            "limits": _listed(*limits),
        }
        self._print(f"allocopt {__version__}", *_aligned(facts))
        self._print("", "{:>10}  {:>16}  {:>16}  {:>7}  {}".format(*HEADINGS))

    def callback(self, given: IncumbentCallback | None) -> IncumbentCallback:
        def add(incumbent: Incumbent) -> None:
            self._last, self._arrived = incumbent, time.perf_counter()
            if self._n_lines < FULL_LINES or self._arrived - self._printed >= LEAST_S:
                self._print_line(incumbent)
            if given is not None:
                given(incumbent)

        return add

    def budget(self, given: Budget) -> Budget:
        def look() -> bool:
            last, now = self._last, time.perf_counter()
            if last is not None and now - self._printed >= QUIET_S:
                self._print_line(replace(last, time_s=last.time_s + now - self._arrived))
            return given.is_cancelled is not None and given.is_cancelled()

        return replace(given, is_cancelled=look)

    def end(self, result: Result) -> None:
        if result.objective is not None:
            last = self._last or Incumbent(0.0, result.objective, result.bound, result.solver)
            by = last.solver if last.objective == result.objective else result.solver
            final = Incumbent(max(last.time_s, result.runtime_s), result.objective, result.bound, by)
            # The last line shows the result, also if a limit on lines held back the last improvement.
            if self._text(final) != self._line:
                self._print_line(final)
        objective, bound, gap = self._values(result.objective, result.bound)
        facts = {
            "status": f"{result.status} ({result.stopped_by})",
            "objective": objective,
            "bound": bound,
            "gap": gap if gap in ("-", "large") else f"{gap} %",
            "time": f"{result.runtime_s:.3f} s",
            "verified": _verified(result),
        }
        self._print("", *_aligned(facts))

    def _print_line(self, incumbent: Incumbent) -> None:
        self._line, self._printed = self._text(incumbent), time.perf_counter()
        self._n_lines += 1
        self._print(f"{incumbent.time_s:10.3f}  {self._line}")

    def _text(self, incumbent: Incumbent) -> str:
        objective, bound, gap = self._values(incumbent.objective, incumbent.bound)
        return f"{objective:>16}  {bound:>16}  {gap:>7}  {incumbent.solver}".rstrip()

    def _values(self, objective: float | None, bound: float | None) -> tuple[str, str, str]:
        """Return objective, bound and gap in per cent as texts."""
        if objective is not None and bound is not None:
            # By rounding, a bound may exceed the optimum.
            bound = min(bound, objective) if sign_of(self._problem) > 0 else max(bound, objective)
        gap = gap_between(objective, bound)
        shown = ["-" if value is None else shown_objective(self._problem, value) for value in (objective, bound)]
        return shown[0], shown[1], "-" if gap is None else "large" if gap >= LARGE_GAP else f"{100.0 * gap:.3f}"

    def _print(self, *lines: str) -> None:
        for line in lines:
            print(line, file=self._out, flush=True)


def log_of(problem: Problem, display: bool | TextIO) -> NoLog:
    """Return the log on a stream, on standard output for True, or one that prints nothing for False.

    Raises `UsageError` for any other value.
    """
    if display is False:
        return NoLog()
    if display is True:
        return SolveLog(problem)
    if not hasattr(display, "write"):
        raise UsageError(f"display is {display!r}, must be True, False or a text stream")
    return SolveLog(problem, display)


def _aim(sense: Sense, objective: str) -> str:
    aim = "minimize" if sense == "min" else "maximize"
    # Kinds that do not name their objective have this default.
    return aim if objective == ProblemKind.objective else f"{aim} the {objective}"


def _verified(result: Result) -> str:
    solution = "no solution" if result.solution is None else "solution valid"
    proved = "infeasibility" if result.status is Status.INFEASIBLE else "bound"
    return _listed(solution, f"{proved} {result.proof}" if result.proof else "no bound")


def _listed(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _aligned(facts: Mapping[str, str]) -> list[str]:
    """Return a line for each fact; a text that is too long for it continues below."""
    fill = textwrap.TextWrapper(WIDTH, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False)
    return [line for name, text in facts.items() for line in fill.wrap(f"{name:<10} {text}")]
