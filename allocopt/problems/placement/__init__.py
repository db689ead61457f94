"""Placement problems: choose the nodes, shared with other jobs, that each job of a window gets."""
