"""Base of the solvers of topology problems: what they all do around their search."""

from abc import ABC, abstractmethod

from allocopt import __version__
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import trivial_allocation


class TopologySolver(ABC):
    """A `Solver` that has an answer if the trivial one obeys: its subclass searches, else the answer is sequential.

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

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the problem is too large for this solver; None if it is not."""
        return None

    @abstractmethod
    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Offer allocations and prove bounds until done or out of time.

        Parameters
        ----------
        problem
            A problem of a strategy and size that the solver takes.
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
        problem: TopologyProblem,
        budget: Budget,
        seed: int,
        warm_start: Allocation | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Search, and end with an answer in any case; see `allocopt.solving.protocol.Solver.solve`."""
        run = Run(self, problem, budget, seed, warm_start, on_incumbent)
        stopped_by = StopReason.TIME_LIMIT
        with run.interruptible():
            stopped_by = self.search(problem, run, budget, seed)
        if run.solution is None and not run.infeasible:
            allocation = trivial_allocation(problem)
            if allocation is not None:
                run.offer(allocation)
        return run.result(stopped_by)
