"""Solver ``sequential``: jobs one after the other along the idle sequence, the NSA paper's "Seq."."""

from typing import ClassVar

import numpy as np

from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.one_shot import OneShot
from allocopt.solving.trivial import sequential_allocation


class Sequential(OneShot):
    """Consecutive idle nodes in the order of the jobs; O(m)."""

    name: ClassVar[str] = "sequential"
    strategies: ClassVar[frozenset[Strategy]] = frozenset(Strategy)

    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Place the jobs in their order."""
        return sequential_allocation(problem)
