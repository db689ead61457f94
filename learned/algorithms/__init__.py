"""Reinforcement learning algorithms, in torch."""
