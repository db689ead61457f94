"""Knapsack problems to proof: dynamic programs, and integer programs for what these do not take."""
