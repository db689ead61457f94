"""Trained networks at work: forward passes as kernels, without torch."""
