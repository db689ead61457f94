"""Simulation of clusters whose nodes jobs share: cores, memory and GPUs of nodes in partitions."""
