"""Knapsack problems: select the waiting jobs that start, under the capacity of one or several resources."""

from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem, Reward, Selection

__all__ = ["KnapsackJob", "KnapsackProblem", "Reward", "Selection"]
