"""Solver ``lns-prices``: the large neighbourhood search of ``lns``, guided by what a network says of the window."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback, Promise
from allocopt.solving.result import EQUAL_RELATIVE, Result, StopReason
from allocopt.solving.run import Run
from heuristics.lns.solver import LARGEST, MOST_IDLE, Lns
from heuristics.lns.state import Groups, Moves, Open, Search
from learned.prices.start import GuidedWindow
from learned.prices.store import SHIPPED, load_weights

INSERTION_S, SHARE = 2e-10, 0.5
"""Time of an insertion per idle node and node of the largest job, and the part of the time that a glance may take."""
WORSE, RIVALS = 0.9, 4
"""Share of the steps that begin with the job that regrets its place most, at the predicted prices, and of how many."""
RESERVE, BEGINNING = 4.5, 2.5
"""Making an allocation of a state takes about so many times as long as encoding the problem; and so does beginning to
search, with the first steps."""

LONG_S = 0.01
"""Time from which on the first allocation is told before it is improved."""


@dataclass(frozen=True, slots=True)
class LnsPrices(Lns):
    """Inserts jobs where a network's prices say, then searches on around these prices.

    The network is called once. It tells what a node of every leaf is worth to the other jobs, in which order to insert
    them, and which are likely to be moved again. Its prices prove a bound.

    Parameters
    ----------
    guidance
        By what the predicted worths are multiplied in the search.
    fading
        Worths fall with the share of nodes that is still to be inserted, to this power.
    hunt
        By what the predicted destruction scores are multiplied; they are added to hops.
    weights
        ``lns-prices`` for the network that comes along, or a file of weights written by ``allocopt train lns-prices``.
    """

    hottest: float = 0.7
    guidance: float = 1.0
    fading: float = 0.5
    hunt: float = 0.0
    weights: str = SHIPPED

    name: ClassVar[str] = "lns-prices"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}),
        frozenset({Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST:,} idle nodes x nodes of the largest job, {MOST_IDLE:,} idle nodes",
    )

    def __post_init__(self) -> None:
        Lns.__post_init__(self)
        if not 0 < self.guidance < float("inf"):
            raise UsageError(f"guidance is {self.guidance}, must be positive")
        if not 0 < self.fading < float("inf"):
            raise UsageError(f"fading is {self.fading}, must be positive")

    def solve(
        self,
        problem: TopologyProblem,
        budget: Budget,
        seed: int,
        warm_start: Allocation | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Load the network before the clock starts; then solve."""
        load_weights(self.weights)
        return TopologySolver.solve(self, problem, budget, seed, warm_start, on_incumbent)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Search from the warm start, or the first allocation if that is better; see `TopologySolver.search`."""
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        if _seconds(problem) > SHARE * run.clock.remaining():
            return Lns(self.steps).search(problem, run, budget, seed)
        window = self.window(problem)
        run.prove(window.bound())
        if run.solution is None and run.clock.remaining() < (RESERVE + BEGINNING) * window.encoding_s:
            run.offer(window.allocation(window.holdings()))
            return StopReason.TIME_LIMIT
        begun = self._first_state(window, run)
        _, _, search = begun
        try:
            if run.clock.expired() or self._is_optimal(window, search, run):
                return StopReason.TIME_LIMIT
            cooling, rng = self._cooling(len(problem.jobs), warm=True), np.random.default_rng(seed)
            return self._walk(window, begun, RESERVE * window.encoding_s, run, budget, rng, cooling)
        finally:
            if run.objective is None or window.cost(float(search.savings[1])) < run.objective:
                run.offer(window.allocation(search.best))

    def _first_state(self, window: GuidedWindow, run: Run) -> tuple[Groups, Open, Search]:
        """Begin at the warm start or at the first allocation, whichever is better."""
        moves = self.moves(len(window.problem.jobs))
        if run.objective is None or window.cost(window.glance.saving) < run.objective:
            if run.clock.remaining() > LONG_S:
                run.offer(window.allocation(window.holdings()))
            begun = window.first(self.most_removed, moves)
        else:
            begun = window.warm(run.solution, self.most_removed, moves)
        window.guide(begun[0], begun[2], self.hunt)
        return begun

    def window(self, problem: TopologyProblem) -> GuidedWindow:
        """Prepare a problem, and glance at it."""
        return GuidedWindow.of(problem, load_weights(self.weights), self.fading)

    def moves(self, n_jobs: int) -> Moves:
        """Say how to move with so many jobs, guided."""
        moves = Lns.moves(self, n_jobs)
        return moves._replace(worse=WORSE, rivals=RIVALS, guidance=self.guidance, fading=self.fading)

    def _is_optimal(self, window: GuidedWindow, search: Search, run: Run) -> bool:
        """Whether the bound leaves no better allocation than the present one."""
        cost = window.cost(float(search.savings[0]))
        return run.bound is not None and cost - run.bound <= EQUAL_RELATIVE * abs(cost)


def _seconds(problem: TopologyProblem) -> float:
    """Return how long a glance takes at most, about: an insertion for every distinct size, and a bound."""
    largest = int(problem.sizes.max())
    return INSERTION_S * len(problem.idle_nodes) * largest * 2 * min(len(problem.jobs), largest)
