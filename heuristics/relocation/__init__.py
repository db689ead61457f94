"""Rules by which production schedulers make room, as solvers of relocation problems."""
