"""Reinforcement learning: algorithms, rollouts, the loop of every training and what it writes."""
