"""Evolved priorities: a queue order by a small network, whose weights come from an evolution strategy in simulation."""
