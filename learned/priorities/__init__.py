"""Evolved priorities: a queue order by a small network, whose weights an evolution strategy finds by simulation."""
