"""Compiling, storing and loading of kernels, and kernels that several parts use."""
