"""Co-allocation of waiting jobs with running ones: problems, and the base class of solvers."""

from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.problems.coallocation.problem import (
    Coallocation,
    CoallocationObjective,
    CoallocationProblem,
    GuestPlace,
)
from allocopt.solving.base import SearchSolver
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind

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


class CoallocationSolver(SearchSolver[CoallocationProblem, Coallocation]):
    """A solver of co-allocation problems."""

    kind = "coallocation"
