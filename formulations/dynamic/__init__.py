"""Exact dynamic programs."""
