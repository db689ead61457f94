"""Back ends that solve binary programs, and the children that they run in."""
