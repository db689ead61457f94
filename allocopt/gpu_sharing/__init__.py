"""Placing pods that ask for fractions of GPUs on the nodes of a cluster, one after the other, by scores of nodes."""
