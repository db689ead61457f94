"""Co-allocations of waiting jobs with running ones: problems, and the base of their solvers."""

from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.problems.coallocation.pairs import Pairs
from allocopt.problems.coallocation.problem import (
    Coallocation,
    CoallocationObjective,
    CoallocationProblem,
    GuestPlace,
)
from allocopt.solving.base import SearchSolver
from allocopt.solving.run import Run
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

    def begin(self, pairs: Pairs, run: Run) -> None:
        """Bound a problem without a search, and offer nobody and, while there is time, the greedy solutions."""
        run.prove(pairs.bound())
        run.offer(Coallocation())
        for solution in pairs.greedy(run.clock.expired):
            run.offer(solution)
            if run.clock.expired() or run.is_proved():
                return
