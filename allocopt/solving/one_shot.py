"""Base of the solvers that build one allocation and are done: all they write is ``allocate``."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run


class OneShot(TopologySolver):
    """A solver of topology problems that builds one allocation.

    A subclass sets ``name`` and, if it is not ``free`` alone, the ``strategies`` whose rules its allocations obey.
    """

    strategies: ClassVar[frozenset[Strategy]] = frozenset({Strategy.FREE})

    @property
    def capabilities(self) -> Capabilities:
        """What the solver takes: no promise, any size."""
        return Capabilities(self.strategies, frozenset(), "any")

    @abstractmethod
    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Build an allocation that obeys the problem's strategy."""

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Build the allocation; see `TopologySolver.search`."""
        run.offer(self.allocate(problem, np.random.default_rng(seed)))
        return StopReason.COMPLETED
