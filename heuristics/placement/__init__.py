"""Fast solvers of placement problems, without a proof of optimality."""
