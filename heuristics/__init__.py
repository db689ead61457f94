"""Fast solvers without a proof of optimality, and rules of schedulers."""
