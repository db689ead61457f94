"""Simulated annealing with the move of the NSA paper: remove some jobs, re-insert them largest first."""
