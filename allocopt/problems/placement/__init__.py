"""Placement problems: which nodes, shared with others, each job of a window gets."""
