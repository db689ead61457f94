"""Multicore machines in the simulator: tasks on cores that share memory channels, their speed, power and policies."""
