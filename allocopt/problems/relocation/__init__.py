"""Relocation problems: stop or move running jobs so that gangs get the room they need and nodes are emptied."""
