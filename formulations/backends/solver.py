"""Base of the solvers by integer programming: a formulation, a back end in a child process, and the record of a run."""

import importlib.metadata
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from allocopt.errors import AllocoptError
from allocopt.problems.base import Strategy
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget, Clock
from formulations.backends.child import BackEndDiedError, pool_of
from formulations.backends.program import BinaryProgram, Formulation, Outcome, Progress, Request

LOGGER = logging.getLogger(__name__)

MARGIN_S, MARGIN_SHARE, LARGEST_MARGIN_S = 0.01, 0.01, 0.5
"""The margin: a constant and a share of the limit, up to a largest. A back end is asked to stop by itself so many
seconds before the end of the limit, and killed so many after it."""


@dataclass(frozen=True, slots=True)
class _BackEndSpec:
    """Module of `formulations.backends`, the package that it needs, and the package's name for people."""

    module: str
    package: str
    title: str


SCIP = _BackEndSpec("scip", "pyscipopt", "PySCIPOpt")
HIGHS = _BackEndSpec("highs", "scipy", "SciPy")
CP_SAT = _BackEndSpec("cp_sat", "ortools", "OR-Tools")


@dataclass(frozen=True)
class BackEndSolver(ABC):
    """The half of a solver that has a back end in child processes; the other half is of the kind of its problems."""

    back_end: ClassVar[_BackEndSpec]
    strategies: ClassVar[frozenset[Strategy]] = frozenset()
    largest_nonzeros: ClassVar[int]

    @property
    def name(self) -> str:
        """That of the back end."""
        return self.back_end.module.replace("_", "-")

    @property
    def capabilities(self) -> Capabilities:
        """Problems of its kind, to proof."""
        promises = frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND})
        return Capabilities(self.strategies, promises, f"{self.largest_nonzeros:,} nonzeros of the model")

    def too_many(self, nonzeros: int) -> str | None:
        """Why a model with so many nonzeros is too large, or None."""
        if nonzeros <= self.largest_nonzeros:
            return None
        return f"its model would have {nonzeros:,} nonzeros, the largest taken has {self.largest_nonzeros:,}"

    @property
    def version(self) -> str:
        """Version of the package that brings the back end; that of the solver in it too, once it has run."""
        known = pool_of(self.back_end.module).version
        return known or f"{self.back_end.title} {importlib.metadata.version(self.back_end.package)}"

    def is_available(self) -> bool:
        """Whether the package of the back end is installed."""
        return find_spec(self.back_end.package) is not None

    @abstractmethod
    def program(self, problem: Any) -> BinaryProgram:
        """Build the whole program of a problem."""

    def export(self, problem: Any, path: Path | str) -> None:
        """Write the program of a problem as ``.mps``, ``.lp``, ``.pb`` or ``.json``; see `BinaryProgram.export`."""
        self.program(problem).export(path)


def ask_child(
    back_end: _BackEndSpec, run: Run, formulation: Formulation, seed: int, warm_start: Any, steps: int | None
) -> None:
    """Let a child process solve a program while there is time, and take what it shows.

    ``steps`` limits the back end's own steps. The child stays for the next solve of this process.
    """
    with pool_of(back_end.module).child() as child:
        # The program is built while the child starts.
        program = formulation.program()
        warm = None if warm_start is None else formulation.encode(warm_start)
        # The version is what a child says first, so that it is known even if there is no time left to solve.
        ready = child.wait_until_ready(run.clock)
        seconds = run.clock.remaining() - _margin(run.clock)
        if not ready or seconds <= 0:
            return
        try:
            child.ask(Request(program, seconds, seed, steps, warm))
            for answer in child.answers(run.clock, _margin(run.clock)):
                _take(run, formulation, answer)
        except BackEndDiedError as error:
            LOGGER.warning("%s; the answer is the best that is known", error)


def _take(run: Run, formulation: Formulation, answer: Progress) -> None:
    if answer.bound is not None:
        run.prove(formulation.bound_of(answer.bound))
    if answer.chosen is not None:
        solution = formulation.decode(answer.chosen)
        if solution is not None:
            run.offer(solution)
    elif isinstance(answer, Outcome) and answer.is_proved:
        raise AllocoptError("the back end says that there is no solution, but one is known")


def stop_reason(clock: Clock, budget: Budget) -> StopReason:
    """Why a search without a proof ended."""
    if clock.remaining() <= 2 * _margin(clock):
        return StopReason.TIME_LIMIT
    return StopReason.COMPLETED if budget.iterations is None else StopReason.ITERATIONS


def _margin(clock: Clock) -> float:
    return MARGIN_S + min(MARGIN_SHARE * (clock.seconds or 0.0), LARGEST_MARGIN_S)
