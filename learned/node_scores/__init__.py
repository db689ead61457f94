"""Evolved scores of nodes, for pods that share GPUs."""
