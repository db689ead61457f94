"""Relocation of jobs on a running cluster: problems, and the base class of solvers."""

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
