"""Solver ``annealing``: Metropolis annealing with the NSA paper's move.

A move removes 1 to n_D jobs and re-inserts them, the largest first, each on consecutive idle nodes from a random first
one. Removing a job nested inside another leaves a hole that others may fill, so that the move reaches more than DCAS:
under strategy ``dcas`` every state is checked, and a move that leads to a crossing one is drawn again, some times at
most (*strict*); under ``free`` every state is allowed (*relaxed*, the reachable set of the published search).
"""

from dataclasses import dataclass
from typing import ClassVar

from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import sequential_allocation
from heuristics.annealing.schedule import Schedule
from heuristics.annealing.walk import rules_of, walk_from, walk_until_done

MOST_JOBS = 20_000


@dataclass(frozen=True, slots=True)
class Annealing(TopologySolver):
    """Proper Metropolis annealing; O(m) a step.

    Parameters
    ----------
    hottest, coldest
        First and last temperature, as multiples of the cost of one hop.
    steps
        Steps where the budget sets no iterations.
    most_removed
        Jobs removed in a move, at most; 2 in Table I of the paper, 3 is better at equal time.
    """

    hottest: float = 5.0
    coldest: float = 0.25
    steps: int = 1000
    most_removed: int = 3

    name: ClassVar[str] = "annealing"
    restores: ClassVar[bool] = True
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )

    def __post_init__(self) -> None:
        self.schedule()

    def schedule(self) -> Schedule:
        """Return the cooling schedule of the options; raises `UsageError` where they make none."""
        return Schedule(self.hottest, self.coldest, self.steps, self.most_removed)

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        n_jobs = len(problem.jobs)
        return None if n_jobs <= MOST_JOBS else f"it has {n_jobs:,} jobs, at most {MOST_JOBS:,} are taken"

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Anneal from the warm start or the sequential allocation; see `TopologySolver.search`."""
        if run.solution is None:
            run.offer(sequential_allocation(problem))
        rules = rules_of(problem, self.schedule(), budget.iterations or self.steps, restores=self.restores)
        return walk_until_done(problem, walk_from(problem, run.solution), rules, seed, run)
