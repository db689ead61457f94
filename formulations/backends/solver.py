"""Base of the solvers by integer programming: a formulation, a back end in a child process, and the record of a run."""

import importlib.metadata
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from allocopt.errors import AllocoptError
from allocopt.solving.budget import Budget, Clock
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from formulations.backends.child import BackEndDiedError, Child, pool_of
from formulations.backends.export import export_program
from formulations.backends.protocol import BinaryProgram, Formulation, Limits, Outcome, OutcomeStatus, Progress, Request

LOGGER = logging.getLogger(__name__)

MARGIN_S, MARGIN_SHARE, LARGEST_MARGIN_S = 0.01, 0.01, 0.5
"""The margin: a constant and a share of the limit, up to a largest. A back end is asked to stop by itself so many
seconds before the end of the limit, and killed so many after it."""


@dataclass(frozen=True, slots=True)
class BackEndSpec:
    """Where a back end comes from.

    Parameters
    ----------
    module
        Module of `formulations.backends`.
    package
        Package that it needs, as it is imported and installed.
    title
        The package's name for people.
    """

    module: str
    package: str
    title: str

    def is_installed(self) -> bool:
        """Whether the package is there; does not import it."""
        return find_spec(self.package) is not None

    def version(self) -> str:
        """Version of the package, from its metadata."""
        return f"{self.title} {importlib.metadata.version(self.package)}"


SCIP = BackEndSpec("scip", "pyscipopt", "PySCIPOpt")
HIGHS = BackEndSpec("highs", "scipy", "SciPy")
CP_SAT = BackEndSpec("cp_sat", "ortools", "OR-Tools")


@dataclass(frozen=True)
class BackEndSolver(ABC):
    """The half of a solver that has a back end in child processes; the other half is of the kind of its problems."""

    back_end: ClassVar[BackEndSpec]

    @property
    def version(self) -> str:
        """Version of the package that brings the back end; that of the solver in it too, once it has run."""
        return pool_of(self.back_end.module).version or self.back_end.version()

    def is_available(self) -> bool:
        """Whether the package of the back end is installed."""
        return self.back_end.is_installed()

    @abstractmethod
    def program(self, problem: Any) -> BinaryProgram:
        """Build the whole program of a problem."""

    def export(self, problem: Any, path: Path | str) -> None:
        """Write the program of a problem as ``.mps``, ``.lp``, ``.pb`` or ``.json``; see `export_program`."""
        export_program(self.program(problem), path)


def ask_child(
    back_end: BackEndSpec,
    run: Run,
    formulation: Formulation,
    seed: int,
    warm_start: Any,
    steps: int | None,
) -> None:
    """Let a child process solve a program while there is time, and take what it shows.

    Parameters
    ----------
    back_end
        What it runs; it stays for the next solve of this process.
    run
        The record, with the running clock.
    formulation
        What to solve.
    seed
        Fixes every random choice.
    warm_start
        A solution to begin with, or None.
    steps
        Limit on the back end's own steps, or None.
    """
    with pool_of(back_end.module).child() as child:
        # The program is built while the child starts.
        program = formulation.program()
        warm = None if warm_start is None else formulation.encode(warm_start)
        ready = child.wait_until_ready(run.clock)
        seconds = run.clock.remaining() - _margin(run.clock)
        if ready and seconds > 0:
            request = Request(program, Limits(seconds, seed, steps), warm)
            _converse(run, formulation, child, request)


def _converse(run: Run, formulation: Formulation, child: Child, request: Request) -> None:
    """Send the request, and take the answers until the child has finished or overruns."""
    try:
        child.ask(request)
        for answer in child.answers(run.clock, _margin(run.clock)):
            _take(run, formulation, answer)
    except BackEndDiedError as error:
        LOGGER.warning("%s; the answer is the best that is known", error)


def _take(run: Run, formulation: Formulation, answer: Progress | Outcome) -> None:
    """Take the bound and the solution of an answer."""
    if answer.bound is not None:
        run.prove(formulation.bound_of(answer.bound))
    if answer.chosen is not None:
        solution = formulation.decode(answer.chosen)
        if solution is not None:
            run.offer(solution)
    elif isinstance(answer, Outcome) and answer.status is OutcomeStatus.PROVED:
        raise AllocoptError("the back end says that there is no solution, but one is known")


def stop_reason(clock: Clock, budget: Budget) -> StopReason:
    """Why a search without a proof ended."""
    if clock.remaining() <= 2 * _margin(clock):
        return StopReason.TIME_LIMIT
    return StopReason.COMPLETED if budget.iterations is None else StopReason.ITERATIONS


def _margin(clock: Clock) -> float:
    """Seconds between the end of the limit and what is done about it, before and after."""
    return MARGIN_S + min(MARGIN_SHARE * (clock.seconds or 0.0), LARGEST_MARGIN_S)
