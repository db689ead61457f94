"""Which of the waiting jobs start, under the capacity of one or several resources."""

from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem, Reward, Selection

__all__ = ["KnapsackJob", "KnapsackProblem", "Reward", "Selection"]
