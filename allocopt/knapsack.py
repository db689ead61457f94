"""Knapsacks of waiting jobs: problems, and the base class of solvers."""

from allocopt.problems.knapsack.packing import Gains
from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem, Reward, Selection
from allocopt.solving.base import SearchSolver

__all__ = ["Gains", "KnapsackJob", "KnapsackProblem", "KnapsackSolver", "Reward", "Selection"]


class KnapsackSolver(SearchSolver[KnapsackProblem, Selection]):
    """A solver of knapsack problems."""

    kind = "knapsack"
