"""Solver ``auto`` of knapsack problems: the first exact solver that takes the problem, or greedy selections."""

from typing import ClassVar

from allocopt.problems.knapsack import KnapsackProblem
from allocopt.problems.packing import MOST_JOBS
from allocopt.solving.base import KnapsackSolver
from allocopt.solving.first_that_takes import FirstThatTakes
from allocopt.solving.protocol import Capabilities, Promise


class AutoKnapsack(FirstThatTakes[KnapsackProblem], KnapsackSolver):
    """Dynamic programming where there is one resource, integer programming otherwise."""

    name: ClassVar[str] = "auto"
    order: ClassVar[tuple[str, ...]] = ("dp", "cp-sat", "scip", "highs", "greedy")
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(), frozenset({Promise.ANYTIME, Promise.BOUND}), f"{MOST_JOBS:,} jobs", kinds=frozenset({"knapsack"})
    )
