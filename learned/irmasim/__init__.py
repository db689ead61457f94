"""Agents that select policies, as IRMaSim's do."""
