"""Simulated annealing: with the move of the NSA paper, and on counts."""
