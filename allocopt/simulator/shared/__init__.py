"""Simulation of clusters with shared nodes: jobs get cores, memory and GPUs of nodes in partitions."""
