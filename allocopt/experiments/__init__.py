"""Grids of solves or simulations: what a file describes, who runs the cells, and where finished ones are kept."""
