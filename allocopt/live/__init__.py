"""Placement on running clusters: reads their state, plans what starts where, and carries it out."""
