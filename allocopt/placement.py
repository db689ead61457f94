"""Placement of jobs on nodes that they share: problems, and the base class of solvers."""

from allocopt.problems.placement.problem import NodeTasks, PlacementJob, PlacementProblem, Placements
from allocopt.solving.base import SearchSolver

__all__ = ["NodeTasks", "PlacementJob", "PlacementProblem", "PlacementSolver", "Placements"]


class PlacementSolver(SearchSolver[PlacementProblem, Placements]):
    """A solver of placement problems."""

    kind = "placement"
