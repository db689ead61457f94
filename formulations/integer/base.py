"""Base of the solvers by integer programming: a formulation, a back end in a child process, and the record of a run."""

import importlib.metadata
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from allocopt.errors import AllocoptError
from allocopt.problems.base import Strategy
from allocopt.problems.blocks import BLOCK_KERNELS, Blocks, blocks_of
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget, Clock
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import sequential_allocation
from formulations.integer.backends.child import BackEndDiedError, Child, pool_of
from formulations.integer.backends.protocol import Limits, Outcome, OutcomeStatus, Progress, Request
from formulations.integer.export import export_program
from formulations.integer.formulation import Formulation
from formulations.integer.program import BinaryProgram

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
        Module of `formulations.integer.backends`.
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


@dataclass(frozen=True)
class ProgramSolver(BackEndSolver, TopologySolver):
    """A solver that hands a binary program to a back end, which runs in a child process and is killed if it overruns.

    If a back end crashes in a solve, the answer is the best that it had shown, and a warning is logged; the sequential
    allocation, and a warm start, are answers from the beginning.
    """

    largest_nonzeros: ClassVar[int]

    @abstractmethod
    def formulate(self, problem: TopologyProblem, blocks: Blocks) -> Formulation:
        """Write a problem as a binary program."""

    @abstractmethod
    def nonzeros(self, problem: TopologyProblem) -> int:
        """Nonzeros of the program, known before it is built."""

    @property
    def capabilities(self) -> Capabilities:
        """SCAS, to proof."""
        return Capabilities(
            frozenset({Strategy.SCAS}),
            frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
            f"{self.largest_nonzeros:,} nonzeros of the model",
        )

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        nonzeros = self.nonzeros(problem)
        if nonzeros <= self.largest_nonzeros:
            return None
        return f"its model would have {nonzeros:,} nonzeros, the largest taken has {self.largest_nonzeros:,}"

    def program(self, problem: TopologyProblem) -> BinaryProgram:
        """Build the program of a problem, whatever its size."""
        return self.formulate(problem, blocks_of(problem)).program()

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        return BLOCK_KERNELS

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Solve the program; see `TopologySolver.search`. Iterations are branch-and-bound nodes, CP-SAT's conflicts."""
        warm_start: Allocation | None = run.solution
        run.offer(sequential_allocation(problem))
        blocks = blocks_of(problem)
        run.prove(blocks.cheapest_total())
        if not run.is_proved():
            formulation = self.formulate(problem, blocks)
            ask_child(self.back_end, run, formulation, seed, warm_start, budget.iterations)
        return stop_reason(run.clock, budget)


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
