"""Exact FREE: column generation for the bound, a search over the leaves to close it."""
