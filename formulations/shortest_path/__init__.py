"""SCAS as a constrained shortest path."""
