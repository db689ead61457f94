"""Clusters: tree topologies."""
