"""Solvers of windows, which are topology or placement problems; see `allocopt.problems.windows`."""

from allocopt.errors import UsageError
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.protocol import Solver, get_solver, solver_names

KINDS = (TopologyProblem.kind, PlacementProblem.kind)
"""Kinds of problems of windows."""


def window_solver(solver: str | Solver, kind: str) -> Solver:
    """Return the solver for windows of a kind: the given one, or ``auto`` if that does not take this kind."""
    if isinstance(solver, str):
        return get_solver(solver if solver in solver_names(kind) else "auto", None, kind)
    return solver if solver.kind == kind else get_solver("auto", None, kind)


def check_window_solver(solver: str | Solver) -> None:
    """Raise `UsageError` if a solver takes windows of neither kind."""
    if isinstance(solver, str):
        kinds = [kind for kind in KINDS if solver in solver_names(kind)]
        solver = get_solver(solver, None, kinds[0] if kinds else None)
    if solver.kind not in KINDS or (solver.kind == TopologyProblem.kind and not solver.capabilities.strategies):
        raise UsageError(
            f"solver {solver.name!r} cannot allocate windows: it takes neither topology nor placement problems"
        )
