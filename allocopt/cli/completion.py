"""Names that a shell completes: of solvers, policies and artifacts."""

from collections.abc import Callable


def names_of(registry: str) -> Callable[[str], list[str]]:
    """Complete names of a registry: ``solvers``, ``policies`` or ``artifacts``; after a comma the next one."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in _names(registry) if name.startswith(begun)]

    return complete


def _names(registry: str) -> list[str]:
    if registry == "solvers":
        from allocopt.solving.registry import solver_names

        return solver_names()
    if registry == "policies":
        from allocopt.simulator.registry import policy_names

        return policy_names()
    from allocopt.reproduction import reproduction_names

    return reproduction_names()
