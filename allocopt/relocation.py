"""Relocations of jobs on a cluster that runs: problems, and the base of their solvers."""

from allocopt.problems.relocation.problem import (
    Action,
    PlacedJob,
    Relocation,
    RelocationProblem,
    Step,
    WaitingGang,
)
from allocopt.solving.base import SearchSolver

__all__ = ["Action", "PlacedJob", "Relocation", "RelocationProblem", "RelocationSolver", "Step", "WaitingGang"]


class RelocationSolver(SearchSolver[RelocationProblem, Relocation]):
    """A solver of relocation problems."""

    kind = "relocation"
