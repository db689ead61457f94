"""Solver ``lns-prices``: the large neighbourhood search of ``lns``, guided by what a network says of the window."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback, Promise
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run
from allocopt.topology import TopologySolver
from heuristics.topology.lns.kernels import search_neighbourhoods
from heuristics.topology.lns.solver import LARGEST, MOST_IDLE, Lns
from heuristics.topology.lns.state import START_KERNELS, Moves, State, Window
from learned.prices.glance import begin_guided, guided_state
from learned.prices.network import SHIPPED, load_network, network_of

INSERTION_S, SHARE = 2e-10, 0.5
"""Time of an insertion per idle node and node of the largest job, and the part of the time that a glance may take."""
MOST_HUNT = 1000.0
WORSE, RIVALS = 0.9, 4
"""Share of the steps that begin with the job that regrets its place most, at the predicted prices, and of how many."""


@dataclass(frozen=True, slots=True)
class LnsPrices(Lns):
    """Inserts jobs where a network's prices say, then searches on around these prices.

    The network is called once. It tells what a node of every leaf is worth to the other jobs, in which order to insert
    them, and which are likely to be moved again. Its prices prove a bound.
    """

    hottest: float = 0.7
    coldest: float = 0.05
    most_removed: int = 6
    guidance: float = 0.85  # By what the predicted worths are multiplied in the search
    fading: float = 0.5  # Worths fall with the share of nodes that is still to be inserted, to this power
    hunt: float = 0.0  # By what the predicted destruction scores are multiplied, in 0 .. 1000; they are added to hops.
    # ``lns-prices`` for the network that comes along, or a file that ``allocopt train lns-prices`` wrote
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
        if not 0 <= self.hunt <= MOST_HUNT:
            raise UsageError(f"hunt is {self.hunt}, must be within 0 .. {MOST_HUNT:g}")

    def solve(
        self,
        problem: TopologyProblem,
        budget: Budget,
        seed: int,
        warm_start: Allocation | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Load the network before the clock starts; then solve."""
        load_network(self.weights)
        return TopologySolver.solve(self, problem, budget, seed, warm_start, on_incumbent)

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        return (network_of, begin_guided, *START_KERNELS, search_neighbourhoods)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Search from the warm start, or the first allocation if that is better; see `TopologySolver.search`."""
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        if _seconds(problem) > SHARE * run.clock.remaining():
            return Lns(self.steps).search(problem, run, budget, seed)
        window, moves = Window.of(problem), self.moves(len(problem.jobs))
        state, most = self.begin(window, moves, seed)
        run.prove(window.cost(most))
        cooling = self._cooling(len(problem.jobs), warm=True)
        return self._walk(window, self._better(window, state, moves, run), run, budget, cooling)

    def begin(self, window: Window, moves: Moves, seed: int) -> tuple[State, float]:
        """Glance at a window; return where to begin, and what no allocation saves more than, in hops."""
        return guided_state(window, load_network(self.weights), self.fading, self.hunt, self.most_removed, moves, seed)

    def moves(self, n_jobs: int) -> Moves:
        """Say how to move with so many jobs, guided."""
        moves = Lns.moves(self, n_jobs)
        return moves._replace(worse=WORSE, rivals=RIVALS, guidance=self.guidance, fading=self.fading)


def _seconds(problem: TopologyProblem) -> float:
    # A glance at most, about: an insertion for every distinct size, and a bound.
    largest = int(problem.sizes.max())
    return INSERTION_S * len(problem.idle_nodes) * largest * 2 * min(len(problem.jobs), largest)
