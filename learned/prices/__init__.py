"""Learned prices of leaf switches: a network predicts how much a node is worth to the other jobs of a window."""
