"""Lagrangian prices of leaves: what a node there is worth to the other jobs."""
