"""Exact FREE: column generation for the bound, and a search over the leaves to close the gap."""
