"""Compiled inner loops that exact and heuristic solvers share."""
