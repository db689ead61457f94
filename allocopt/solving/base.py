"""The base of solvers that search, and how one asks another."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Generic

from typing_extensions import TypeVar

from allocopt.kernels.ready import make_ready, unloaded
from allocopt.problems.base import Problem
from allocopt.problems.kind import get_kind, kind_of
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback, Solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.run import Run
from allocopt.version import __version__


def rounded(number: int) -> str:
    """Write a whole number of any size with three digits; beyond the range of a float, as more than a power of ten."""
    if number > 10**300:
        return "more than 1e300"
    return f"{number:,}" if number < 1_000_000 else f"{number:.3g}"


P = TypeVar("P", bound=Problem)
S = TypeVar("S")


class SearchSolver(ABC, Generic[P, S]):
    """A `Solver` that searches, and answers with the trivial solution of its kind, if there is one, if it found none.

    A subclass sets ``name``, ``kind`` and ``capabilities`` and writes ``search``; ``refusal`` where it does not take
    the sizes that its kind takes.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def name(self) -> str:
        """Name under which it is asked for."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What it takes and promises."""

    @property
    def version(self) -> str:
        """Version of this package."""
        return __version__

    def is_available(self) -> bool:
        """Whether it can run here: yes, unless a subclass needs something."""
        return True

    def takes(self, problem: P) -> bool:
        """Whether it takes problems like this one: every one of its kind, unless a subclass says otherwise."""
        return True

    def refusal(self, problem: P) -> str | None:
        """Why the problem is too large for this solver, with the size it takes; None if it is not."""
        return get_kind(self.kind).refusal(problem)

    def kernels(self, problem: P) -> Iterable[Callable[..., object]]:
        """Compiled entries that the search may call."""
        return ()

    def is_ready(self, problem: P, run: Run) -> bool:
        """Load the kernels; whether they were compiled in time."""
        missing = unloaded(self.kernels(problem))
        return not missing or make_ready(missing, run.clock.remaining())

    @abstractmethod
    def search(self, problem: P, run: Run, budget: Budget, seed: int) -> StopReason:
        """Offer solutions and prove bounds until done or out of time; return why it ended, if nothing is proved.

        Parameters
        ----------
        problem
            A problem of a size that the solver takes.
        run
            The record, with the warm start as incumbent if there is one, and the running clock.
        seed
            Fixes every random choice.
        """

    def solve(
        self,
        problem: P,
        budget: Budget,
        seed: int,
        warm_start: S | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result[S]:
        """Search, and end with an answer in any case; see `allocopt.solving.protocol.Solver.solve`."""
        run = Run(self, problem, budget, seed, warm_start, on_incumbent)
        stopped_by = StopReason.TIME_LIMIT
        with run.interruptible():
            if self.is_ready(problem, run):
                stopped_by = self.search(problem, run, budget, seed)
        if run.solution is None and not run.infeasible:
            solution = get_kind(self.kind).trivial(problem)
            if solution is not None:
                run.offer(solution)
        return run.result(stopped_by)


def ask(solver: Solver, asked: Problem, budget: Budget, seed: int, problem: Problem, run: Run) -> StopReason:
    """Let a solver run, from the incumbent where the strategies agree; take what it finds and return why it stopped.

    Parameters
    ----------
    asked
        What it is asked for: the same window, maybe under another strategy. A narrower one gives solutions, a wider one
        bounds, the same both; problems without a strategy are the same.
    problem, run
        The problem of the solve around it, and its record.
    """
    # Solutions of a narrower strategy are solutions of this one; bounds of a wider one are bounds.
    wide = _rank(asked) - _rank(problem)
    result = solver.solve(
        asked,
        budget,
        seed,
        run.solution if wide == 0 else None,
        (lambda incumbent: run.foresee(incumbent.objective)) if wide <= 0 else None,
    )
    run.interrupted = result.status is Status.INTERRUPTED or result.stopped_by is StopReason.INTERRUPTED
    if result.status is Status.INFEASIBLE:
        run.prove_infeasible()
    if result.solution is not None and wide <= 0:
        run.offer(result.solution, result.objective)
    if result.bound is not None and wide >= 0:
        run.prove(result.bound)
    return result.stopped_by


def _rank(problem: Problem) -> int:
    # Of the strategies of a kind, each holds those before.
    kind = kind_of(problem)
    strategy = kind.strategy_of(problem)
    return 0 if strategy is None else kind.strategies.index(strategy)
