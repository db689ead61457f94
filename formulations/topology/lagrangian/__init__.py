"""SCAS on large windows: a Lagrangian bound by shortest paths, reduced costs, a primal search, and a small program."""
