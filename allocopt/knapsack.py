"""Knapsacks of waiting jobs: problems, and the base of their solvers."""

from allocopt.problems.knapsack.packing import Gains
from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem, Reward, Selection
from allocopt.solving.base import KnapsackSolver

__all__ = ["Gains", "KnapsackJob", "KnapsackProblem", "KnapsackSolver", "Reward", "Selection"]
