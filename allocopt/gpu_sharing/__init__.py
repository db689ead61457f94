"""Placement of pods that ask for fractions of GPUs, one by one, on the node with the highest score."""
