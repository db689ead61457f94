"""Rules that schedulers of production use to make room, as solvers of relocation problems."""
