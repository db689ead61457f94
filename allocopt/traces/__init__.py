"""Workloads: traces, generators, and the windows that they give rise to."""
