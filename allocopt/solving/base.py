"""The base of solvers that search: what every search has around it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Generic

from typing_extensions import TypeVar

from allocopt import __version__
from allocopt.kernels.ready import make_ready, unloaded
from allocopt.problems.base import Problem
from allocopt.problems.kind import get_kind
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run

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
        """Offer solutions and prove bounds until done or out of time.

        Parameters
        ----------
        problem
            A problem of a size that the solver takes.
        run
            The record, with the warm start as incumbent if there is one, and the running clock.
        budget
            What may be spent.
        seed
            Fixes every random choice.

        Returns
        -------
        StopReason
            Why the search ended, if nothing is proved.
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
