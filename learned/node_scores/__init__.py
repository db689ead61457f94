"""Scores of nodes that are evolved for pods which share GPUs."""
