"""Solver ``lns``: large neighbourhood search by exact insertion."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from heuristics.best_fit import BestFit
from heuristics.greedy import insert_largest_first
from heuristics.lns.kernels import Moves, search_neighbourhoods
from heuristics.lns.start import Start

MOST_REMOVED = 100
STEPS_PER_JOB = 200
"""A cycle has at least that many steps for each job, if the budget has."""
LARGEST = 50_000_000
"""Groups with idle nodes times jobs: the counts of all jobs are kept, 8 bytes each and twice."""

FEW_JOBS = 30
"""Jobs up to which the best allocation to begin with is the greedy one; beyond, it leaves worse fragments."""

SLICE = 4_000_000
"""Idle nodes times nodes of the largest job times steps between two looks at the clock: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Lns(TopologySolver):
    """Removes a few jobs and inserts each again where it costs least under random prices of the leaves.

    A step removes 1 to ``most_removed`` random jobs and inserts them in random order, each exactly, by a dynamic
    program over the tree in which a node of a leaf has a random price; the prices stand for what the other jobs would
    give for the leaf. The state is accepted as in annealing, with temperatures that fall over a cycle of steps.

    Parameters
    ----------
    steps
        Steps where the budget sets no iterations, and the least length of a cycle.
    hottest, coldest
        First and last temperature of a cycle, in hops.
    price
        Standard deviation of the prices, in hops per node and per node of the largest job removed.
    most_removed
        Jobs removed in a step, at most.
    """

    steps: int = 1000
    hottest: float = 1.0
    coldest: float = 0.02
    price: float = 0.35
    most_removed: int = 5

    name: ClassVar[str] = "lns"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}),
        frozenset({Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST:,} groups with idle nodes x jobs",
    )

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}, must be at least 1")
        if not 0 < self.coldest <= self.hottest < float("inf"):
            raise UsageError(f"temperatures must fall and be positive, not from {self.hottest} to {self.coldest}")
        if not 0 <= self.price < float("inf"):
            raise UsageError(f"price is {self.price}, must not be negative")
        if not 1 <= self.most_removed <= MOST_REMOVED:
            raise UsageError(f"most_removed is {self.most_removed}, must be within 1 .. {MOST_REMOVED}")

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        work = len(problem.idle_nodes) * len(problem.jobs)
        return None if work <= LARGEST else f"{work:,} is the product; {self.capabilities.largest} are taken"

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Search from the warm start or the greedy allocation, whichever is better; see `TopologySolver.search`."""
        run.offer(insert_largest_first(problem, run)[0])
        if len(problem.jobs) > FEW_JOBS:
            BestFit().search(problem, run, budget, seed)
        if run.is_proved() or run.clock.expired():
            return StopReason.TIME_LIMIT
        start = Start.of(problem, self.most_removed)
        search = start.search(run.solution)
        steps = budget.iterations or self.steps
        moves = Moves(
            self.hottest, self.coldest, self.price, min(steps, max(self.steps, STEPS_PER_JOB * len(problem.jobs)))
        )
        rng = np.random.default_rng(seed)
        per_slice = max(1, SLICE // (len(problem.idle_nodes) * int(problem.sizes.max())))
        best = search.savings[1]
        for first in range(0, steps, per_slice):
            if run.is_proved():
                return StopReason.PROVED
            if run.clock.expired():
                return StopReason.TIME_LIMIT
            last = min(steps, first + per_slice)
            search_neighbourhoods(start.tree, start.state, search, moves, first, last, rng)
            if search.savings[1] > best:
                best = search.savings[1]
                run.offer(start.allocation(search.best))
        return StopReason.ITERATIONS
