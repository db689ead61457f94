"""Workloads: formats of traces, generators, and jobs with profiles or tasks."""
