"""Reinforcement learning: algorithms, rollouts, the training loop and the files that it writes."""
