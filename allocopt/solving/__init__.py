"""The solver interface: protocol, budget, result, registry, verifier, portfolio."""
