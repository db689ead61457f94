"""Learned prices of leaves: what a node is worth to the other jobs, seen at one glance at a window."""
