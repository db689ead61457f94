"""Allocators of topology problems: rules, insertion, annealing, large neighbourhood search."""
