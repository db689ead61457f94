"""Who stops, who moves, and who starts where, so that gangs get the room they need and nodes are emptied."""
