"""Exact solvers of relocation problems."""
