"""Knapsack problems solved exactly: dynamic programs, and integer programs for what these do not take."""
