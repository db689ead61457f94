"""Learned prices of leaves: a network predicts the worth of a node to the other jobs of a window."""
