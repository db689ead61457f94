"""How kernels are compiled, kept and loaded, and what several parts compile."""
