"""Bases of the solvers of one kind of problem: what they all do around their search."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from allocopt import __version__
from allocopt.kernels.ready import make_ready, unloaded
from allocopt.problems.base import Problem
from allocopt.problems.coallocation.packing import greedy_coallocations
from allocopt.problems.coallocation.pairs import Pairs, alone_bound, pairs_refusal
from allocopt.problems.coallocation.problem import Coallocation, CoallocationProblem
from allocopt.problems.gains import Gains
from allocopt.problems.knapsack import KnapsackProblem, Selection
from allocopt.problems.packing import greedy_selections, packing_refusal, simple_bound
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import trivial_allocation

ProblemT = TypeVar("ProblemT", bound=Problem)


class SearchSolver(ABC, Generic[ProblemT]):
    """A `Solver` that searches, and answers with the trivial solution of its kind, if there is one, if it found none.

    A subclass sets ``name`` and ``capabilities`` and writes ``search``; ``refusal`` where it does not take any size.
    """

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
        """Version of what does the work: this package's."""
        return __version__

    def is_available(self) -> bool:
        """Whether it can run here."""
        return True

    def refusal(self, problem: ProblemT) -> str | None:
        """Why the problem is too large for this solver; None if it is not."""
        return None

    def kernels(self, problem: ProblemT) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call; see `allocopt.solving.protocol.kernels_of`."""
        return ()

    def is_ready(self, problem: ProblemT, run: Run) -> bool:
        """Load the kernels; whether they were compiled in time."""
        missing = unloaded(self.kernels(problem))
        return not missing or make_ready(missing, run.clock.remaining())

    @abstractmethod
    def search(self, problem: ProblemT, run: Run, budget: Budget, seed: int) -> StopReason:
        """Offer solutions and prove bounds until done or out of time.

        Parameters
        ----------
        problem
            A problem of a kind, strategy and size that the solver takes.
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

    @abstractmethod
    def trivial(self, problem: ProblemT) -> Any:
        """Return the solution that needs no search; None where there is none."""

    def solve(
        self,
        problem: ProblemT,
        budget: Budget,
        seed: int,
        warm_start: Any = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Search, and end with an answer in any case; see `allocopt.solving.protocol.Solver.solve`."""
        run = Run(self, problem, budget, seed, warm_start, on_incumbent)
        stopped_by = StopReason.TIME_LIMIT
        with run.interruptible():
            if self.is_ready(problem, run):
                stopped_by = self.search(problem, run, budget, seed)
        if run.solution is None and not run.infeasible:
            solution = self.trivial(problem)
            if solution is not None:
                run.offer(solution)
        return run.result(stopped_by)


class TopologySolver(SearchSolver[TopologyProblem]):
    """A solver of topology problems, whose trivial solution is the sequential allocation if it obeys."""

    def trivial(self, problem: TopologyProblem) -> Any:
        """Return the sequential allocation if it keeps to the rules of the jobs."""
        return trivial_allocation(problem)


class KnapsackSolver(SearchSolver[KnapsackProblem]):
    """A solver of knapsack problems, whose trivial solution selects nobody; it takes what can be packed quickly."""

    def refusal(self, problem: KnapsackProblem) -> str | None:
        """Why the problem is too large for this solver; None if it is not."""
        return packing_refusal(problem)

    def trivial(self, problem: KnapsackProblem) -> Any:
        """Return the empty selection."""
        return Selection(())

    def begin(self, problem: KnapsackProblem, gains: Gains, run: Run) -> None:
        """Bound a problem without a search, and offer the empty and, while there is time, the greedy selections."""
        run.prove(simple_bound(problem, gains))
        run.offer(self.trivial(problem))
        for selection in greedy_selections(problem, gains):
            run.offer(selection)
            if run.clock.expired() or run.is_proved():
                return


class CoallocationSolver(SearchSolver[CoallocationProblem]):
    """A solver of co-allocation problems, whose trivial solution places nobody; it takes what tables are made for."""

    def refusal(self, problem: CoallocationProblem) -> str | None:
        """Why the problem is too large for this solver; None if it is not."""
        return pairs_refusal(problem)

    def trivial(self, problem: CoallocationProblem) -> Any:
        """Return the solution without a placement."""
        return Coallocation()

    def begin(self, problem: CoallocationProblem, pairs: Pairs, run: Run) -> None:
        """Bound a problem without a search, and offer nobody and, while there is time, the greedy solutions."""
        run.prove(alone_bound(pairs.values))
        run.offer(self.trivial(problem))
        for solution in greedy_coallocations(problem, pairs, run.clock.expired):
            run.offer(solution)
            if run.clock.expired() or run.is_proved():
                return
