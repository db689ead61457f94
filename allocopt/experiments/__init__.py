"""Grids of solves or simulations: their specifications, the workers that run the cells, and the store of results."""
