"""Comparisons of results: rows, summaries, tables, provenance."""
