"""Placement on clusters that run: what they say, what to start where, and making them do it."""
