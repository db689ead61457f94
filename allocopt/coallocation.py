"""Co-allocations of waiting jobs with running ones: problems, and the base of their solvers."""

from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.problems.coallocation.problem import (
    Coallocation,
    CoallocationObjective,
    CoallocationProblem,
    GuestPlace,
)
from allocopt.problems.coallocation.profile import ProfiledJob, Stage, StageKind
from allocopt.solving.base import CoallocationSolver

__all__ = [
    "Coallocation",
    "CoallocationObjective",
    "CoallocationProblem",
    "CoallocationSolver",
    "GuestPlace",
    "Interference",
    "ProfiledJob",
    "Sharing",
    "Stage",
    "StageKind",
]
