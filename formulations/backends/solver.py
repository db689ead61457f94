"""Base of solvers by integer programming, and the child processes in which their back ends run."""

import importlib.metadata
import logging
import math
import os
import subprocess
import threading
import weakref
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from multiprocessing import Pipe
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from allocopt.child_process import child_environment, module_command
from allocopt.errors import AllocoptError, InvalidSolutionError, UsageError
from allocopt.formulations.backends.program import BinaryProgram, Formulation, Outcome, Progress, Request
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.certificate import Stated
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.base import SearchSolver
from allocopt.solving.budget import Budget, Clock
from allocopt.solving.verify import verify


class _BackEndDiedError(AllocoptError):
    """The child process of a back end ended unexpectedly."""


class _Child:
    """A child process that runs a module of `allocopt.formulations.backends` and serves one request at a time."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._owner = os.getpid()
        self._busy = False
        self.version: str | None = None
        environment = child_environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        command = module_command("allocopt.formulations.backends.worker", module)
        self._pipe, theirs = Pipe()
        # The child has its own process group, so that Ctrl-C in a terminal reaches only the parent.
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=theirs.fileno(), env=environment, process_group=0
            )
        self._answers: SimpleQueue[Any] = SimpleQueue()
        # The thread uses local names: a reference to this object would keep it from being garbage-collected.
        pipe, process, answers = self._pipe, self._process, self._answers

        def receive() -> None:
            with suppress(EOFError, OSError):
                while True:
                    answers.put(pipe.recv())
            process.wait()
            answers.put(None)

        threading.Thread(target=receive, daemon=True).start()

    def is_free(self) -> bool:
        """Return whether the child is alive, belongs to this process, and has answered all requests."""
        return not self._busy and self._owner == os.getpid() and self._process.poll() is None

    def wait_until_ready(self, clock: Clock) -> bool:
        """Wait for the version; return whether it comes in time. Raises `_BackEndDiedError` if the child ends first."""
        with suppress(Empty):
            self.version = self.version or cast(str, self._answer(clock, 0.0))
        return self.version is not None

    def solve(self, request: Request, clock: Clock, grace: float) -> Iterator[Progress]:
        """Yield the reports of a solve, until the outcome or ``grace`` seconds after the time limit.

        Raises `_BackEndDiedError` if the child ends before it has answered.
        """
        self._busy = True
        # If the child has ended, the wait for its answer raises the error.
        with suppress(OSError):
            self._pipe.send(request)
        while self._busy:
            try:
                answer = self._answer(clock, grace)
            except Empty:
                return
            self._busy = not isinstance(answer, Outcome)
            yield answer

    def kill(self) -> None:
        """Kill the process, unless this object is a copy in a forked process."""
        if self._owner == os.getpid():
            # The reading thread waits for the end of the process, which takes a while if it has to free much memory.
            self._process.kill()

    def _answer(self, clock: Clock, grace: float) -> Any:
        left = clock.remaining()
        while True:
            # Wait in short parts if the caller may cancel the solve.
            part = left + grace if clock.is_cancelled is None else min(left + grace, CANCEL_S)
            try:
                answer = self._answers.get(timeout=None if math.isinf(part) else part)
                break
            except Empty:
                if part == left + grace or (left := clock.remaining()) <= 0.0:
                    raise
        if answer is not None:
            return answer
        code = self._process.returncode
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        doing = "in a solve" if self._busy else "before it was ready"
        raise _BackEndDiedError(f"the process that runs the back end {self._module!r} {ended} {doing}")


class _ChildPool:
    """Child processes for a module of `allocopt.formulations.backends`.

    They are kept alive between solves, and killed with the pool.
    """

    def __init__(self, module: str) -> None:
        self.version: str | None = None
        self._module = module
        self._free: list[_Child] = []
        free = self._free

        def kill_all() -> None:
            for child in free:
                child.kill()

        weakref.finalize(self, kill_all)

    @contextmanager
    def child(self) -> Iterator[_Child]:
        """Yield a child process; afterwards, keep it if it is idle, and kill it otherwise."""
        child: _Child | None = None
        # Try to pop without checking for an empty list: another thread could take the last child after the check.
        with suppress(IndexError):
            while not (child := self._free.pop()).is_free():
                child.kill()
                child = None
        child = child or _Child(self._module)
        try:
            yield child
        finally:
            self.version = child.version or self.version
            if child.is_free():
                self._free.append(child)
            else:
                child.kill()


# All solvers of this process share the children of a back end, because starting one takes half a second.
pool_of = cache(_ChildPool)


LOGGER = logging.getLogger(__name__)

# The margin is MARGIN_S plus the share MARGIN_SHARE of the time limit, of which at most LARGEST_MARGIN_S count. A back
# end has to stop one margin before the time limit, and is killed one margin after it.
MARGIN_S, MARGIN_SHARE, LARGEST_MARGIN_S = 0.01, 0.01, 0.5
CANCEL_S = 0.05  # seconds between two checks whether the solve was cancelled


@dataclass(frozen=True, slots=True)
class BackEnd:
    """A module of `allocopt.formulations.backends`, the package that it needs, and for messages the names of both."""

    module: str
    package: str
    title: str
    solver: str

    def solve(
        self, problem: Problem, run: Run, formulation: Formulation, budget: Budget, seed: int, warm_start: object
    ) -> StopReason:
        """Solve a program in a child process within the time limit; record its reports, and return why the solve ended.

        The iterations of the budget limit the back end's steps. The child stays alive for the next solve.
        """
        margin = MARGIN_S + min(MARGIN_SHARE * (run.clock.seconds or 0.0), LARGEST_MARGIN_S)
        with pool_of(self.module).child() as child:
            # Build the program while the child starts.
            program = formulation.program()
            warm = None if warm_start is None else formulation.encode(warm_start)
            # A child sends its version first, so that the version is known even if no time is left to solve.
            ready = child.wait_until_ready(run.clock)
            seconds = run.clock.remaining() - margin
            if not ready or seconds <= 0:
                return StopReason.TIME_LIMIT
            try:
                stated = Stated(f"{self.solver} of {child.version or self.title}")
                for answer in child.solve(Request(program, seconds, seed, budget.iterations, warm), run.clock, margin):
                    if answer.bound is not None:
                        run.prove(formulation.bound_of(answer.bound), stated)
                    solution = None if answer.chosen is None else formulation.decode(answer.chosen)
                    if solution is not None:
                        try:
                            verify(problem, solution)
                            run.offer(solution)
                        except InvalidSolutionError as error:
                            # Tolerances of the back end can cause slight violations.
                            LOGGER.warning("an answer of %s breaks a rule and is not used: %s", self.solver, error)
                    elif (
                        answer.chosen is None
                        and isinstance(answer, Outcome)
                        and answer.is_proved
                        and formulation.is_whole()
                    ):
                        if run.solution is not None:
                            raise AllocoptError("the back end reports infeasibility, but a solution is known")
                        run.prove_infeasible()
            except _BackEndDiedError as error:
                LOGGER.warning("%s; the result is the best solution known", error)
        if run.clock.remaining() <= 2 * margin:
            return StopReason.TIME_LIMIT
        return StopReason.COMPLETED if budget.iterations is None else StopReason.ITERATIONS


SCIP = BackEnd("scip", "pyscipopt", "PySCIPOpt", "SCIP")
HIGHS = BackEnd("highs", "scipy", "SciPy", "HiGHS")
CP_SAT = BackEnd("cp_sat", "ortools", "OR-Tools", "CP-SAT")

P = TypeVar("P", bound=Problem)
T = TypeVar("T")  # tables that are computed from a problem before it is formulated


@dataclass(frozen=True)
class BackEndSolver(SearchSolver[P, Any], Generic[P, T]):
    """A solver that passes a binary program to a back end in a child process, and kills the process if it overruns.

    If the back end crashes, the result is the best solution reported so far, and a warning is logged. Iterations are
    branch-and-bound nodes, or conflicts for CP-SAT.
    """

    back_end: BackEnd

    strategies: ClassVar[frozenset[Strategy]] = frozenset()
    no_model: ClassVar[str] = ""
    """Reason why a problem can have an empty model, for messages."""

    @classmethod
    def scip(cls) -> Self:
        """Return the solver that uses SCIP."""
        return cls(SCIP)

    @classmethod
    def highs(cls) -> Self:
        """Return the solver that uses HiGHS."""
        return cls(HIGHS)

    @classmethod
    def cp_sat(cls) -> Self:
        """Return the solver that uses CP-SAT."""
        return cls(CP_SAT)

    @property
    def name(self) -> str:
        return self.back_end.module.replace("_", "-")

    @property
    @abstractmethod
    def largest_nonzeros(self) -> int:
        """Most nonzeros that a program may have."""

    @property
    def capabilities(self) -> Capabilities:
        promises = frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND})
        return Capabilities(self.strategies, promises, f"{self.largest_nonzeros:,} nonzeros of the model")

    def too_many(self, nonzeros: int) -> str | None:
        """Return why a model with this number of nonzeros is too large; None if it is not."""
        if nonzeros <= self.largest_nonzeros:
            return None
        return f"its model would have {nonzeros:,} nonzeros, at most {self.largest_nonzeros:,} are supported"

    @property
    def version(self) -> str:
        """Version of the back end's package and, once the back end has run, of the solver in it."""
        back_end = self.back_end
        return pool_of(back_end.module).version or f"{back_end.title} {importlib.metadata.version(back_end.package)}"

    def is_available(self) -> bool:
        return find_spec(self.back_end.package) is not None

    @abstractmethod
    def tables(self, problem: P) -> T:
        """Return the tables of a problem."""

    @abstractmethod
    def prepare(self, problem: P, tables: T, run: Run) -> object:
        """Record a bound and solutions that are found quickly; return the solution to start from, or None."""

    @abstractmethod
    def formulate(self, problem: P, tables: T, known: float | None = None) -> Formulation:
        """Return the formulation of a problem; empty if no solution can be better than the known objective."""

    def program(self, problem: P) -> BinaryProgram:
        """Return the whole program of a problem, regardless of its size."""
        formulation = self.formulate(problem, self.tables(problem))
        if formulation.is_empty():
            raise UsageError(f"{problem.name!r} has no model: {self.no_model}")
        return formulation.program()

    def export(self, problem: P, path: Path | str) -> None:
        """Write the program of a problem as ``.mps``, ``.lp``, ``.pb`` or ``.json``; see `BinaryProgram.export`."""
        self.program(problem).export(path)

    def search(self, problem: P, run: Run, budget: Budget, seed: int) -> StopReason:
        tables = self.tables(problem)
        warm_start = self.prepare(problem, tables, run)
        if run.is_proved() or run.clock.expired():
            return StopReason.TIME_LIMIT
        formulation = self.formulate(problem, tables, run.objective)
        if not formulation.is_empty():
            return self.back_end.solve(problem, run, formulation, budget, seed, warm_start)
        # An empty formulation proves that no solution is better than the known one.
        if run.objective is not None:
            run.prove(run.objective, run.certificate)
        return StopReason.PROVED
