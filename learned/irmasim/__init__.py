"""Agents that select policies, like those of IRMaSim."""
