"""Exact and bounding solvers of topology problems."""
