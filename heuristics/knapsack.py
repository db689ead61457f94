"""Solver ``greedy`` of knapsack problems: jobs one after the other while they fit, in a few orders."""

from typing import ClassVar

from allocopt.knapsack import KnapsackProblem, KnapsackSolver
from allocopt.problems.knapsack.packing import MOST_JOBS, Gains
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget


class GreedyKnapsack(KnapsackSolver):
    """Select jobs in order of gain, of gain per requested share, and of size; keep the best; O(J (R + slots)) each."""

    name: ClassVar[str] = "greedy"
    capabilities: ClassVar[Capabilities] = Capabilities(frozenset(), frozenset({Promise.BOUND}), f"{MOST_JOBS:,} jobs")

    def search(self, problem: KnapsackProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        gains = Gains.of(problem)
        return self.begin(problem, run, *gains.bound(), gains.greedy())
