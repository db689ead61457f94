"""Simulation of multicore machines: tasks on cores that share memory channels, their speed, power and policies."""
