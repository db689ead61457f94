"""Solver ``exact``: FREE to proof.

A search finds an allocation, column generation bounds it (`columns`), and a search over the leaves closes the gap
(`layers`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from allocopt.errors import MissingPackageError, UsageError
from allocopt.kernels.insertion import insertion_state
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import TREE_KERNELS
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.base import ask
from allocopt.solving.budget import MOST_ITERATIONS, Budget
from allocopt.solving.protocol import IncumbentCallback, Solver
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Result
from allocopt.topology import TopologySolver
from formulations.topology.free.closing import Closing, seconds_to_set_up
from formulations.topology.free.kernels import expand_states, fill_completions
from formulations.topology.free.pricing import best_patterns, most_violated

SEARCHES = ("lns", "greedy")  # who looks for allocations: the first that is installed

STEPS, MORE_STEPS, LAST_STEPS = 1000, 2000, 20_000
"""Steps of the search for an allocation: first, where the bound shows that it may not be optimal, and where the proof
fails and there is no time limit to fill."""

MOST_STATES = 100_000_000
EFFORTS = ((None, 5_000), (0.1, 100_000), (0.01, MOST_STATES))
"""Part of the gap that a round of cuts has to close for another one (None: no cuts), and number of states, in turn."""

SEARCH_SHARE = 2 / 3
"""Share of the time that is left in which the search takes a number of steps; where the rest is too short for a bound,
the search gets all of it."""

LEAST_SEARCH_S = 5e-4  # what another search takes besides its steps; with less time left, none is begun

LARGEST, MOST_COUNTS = 20_000_000, 10_000_000
"""Idle nodes times levels times nodes of the largest job: one round of pricing then takes some tenths of a second. Idle
nodes times jobs: the counts of all jobs are kept."""


EXACT_KERNELS = (*TREE_KERNELS, insertion_state, best_patterns, most_violated, fill_completions, expand_states)
"""Entries that bounding and closing calls."""


@dataclass(frozen=True, slots=True)
class ExactFree(TopologySolver):
    """Finds an allocation, bounds it by column generation over job patterns, and closes the gap leaf by leaf.

    A budget's iterations are rounds of the column generation and, after them, layers of the search over the leaves.
    After so many ``states`` the search over the leaves gives up; one takes some 30 + 4 J bytes.
    """

    states: int = 2_000_000

    name: ClassVar[str] = "exact"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}),
        frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST:,} idle nodes x levels x nodes of the largest job, {MOST_COUNTS:,} idle nodes x jobs; "
        "proofs mostly up to 8 jobs on 3 levels",
        side_constraints=True,
    )

    def __post_init__(self) -> None:
        if not 1 <= self.states <= MOST_STATES:
            raise UsageError(f"states is {self.states}, must be within 1 .. {MOST_STATES:,}")

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        largest = max(int(problem.sizes.max()), problem.n_left if problem.fragmentation_weight > 0 else 0)
        work = len(problem.idle_nodes) * len(problem.topology.hops) * largest
        counts = len(problem.idle_nodes) * len(problem.jobs)
        if work <= LARGEST and counts <= MOST_COUNTS:
            return None
        return f"{work:,} and {counts:,} are the products, {LARGEST:,} and {MOST_COUNTS:,} are taken"

    def solve(
        self,
        problem: TopologyProblem,
        budget: Budget,
        seed: int,
        warm_start: Allocation | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Load the search for allocations, and its kernels with it, before the clock starts; then solve."""
        _finder(problem)
        return TopologySolver.solve(self, problem, budget, seed, warm_start, on_incumbent)

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        return (*EXACT_KERNELS, *_finder(problem).kernels(problem))

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Search, bound and close; see `TopologySolver.search`."""
        bounding_s = seconds_to_set_up(problem)
        leaves_time = (1.0 - SEARCH_SHARE) * run.clock.remaining() >= bounding_s
        _improve(problem, run, budget, seed, STEPS if leaves_time else None)
        allocation = Allocation.trivial(problem) if run.solution is None else None
        if allocation is not None:
            run.offer(allocation)
        if run.infeasible or run.interrupted or run.clock.remaining() < bounding_s:
            return StopReason.TIME_LIMIT
        closing = Closing(problem, run, budget.iterations)
        if not run.infeasible:
            closing.bound()
        if run.infeasible:
            return StopReason.PROVED
        if closing.distance() > 0.0 and run.clock.remaining() >= LEAST_SEARCH_S:
            _improve(problem, run, budget, seed + 1, MORE_STEPS)
        if not (run.interrupted or self._is_closed(closing) or run.clock.remaining() < LEAST_SEARCH_S):
            _improve(problem, run, budget, seed + 2, LAST_STEPS if budget.seconds is None else None)
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        return StopReason.COMPLETED if budget.iterations is None else StopReason.ITERATIONS

    def _is_closed(self, closing: Closing) -> bool:
        for least_progress, states in EFFORTS:
            if least_progress is not None:
                closing.strengthen(least_progress)
            if closing.close(min(self.states, states)):
                return True
        return False


def installed(names: Iterable[str]) -> Iterator[Solver]:
    """Yield those of the solvers that are installed."""
    for name in names:
        try:
            yield get_solver(name)
        except (UsageError, MissingPackageError):
            continue


def _finder(problem: TopologyProblem) -> Solver:
    for finder in installed(SEARCHES):
        if finder.takes(problem):
            return finder
    raise UsageError(f"solver 'exact' needs one of the solvers {', '.join(SEARCHES)}")


def _improve(problem: TopologyProblem, run: Run, budget: Budget, seed: int, steps: int | None) -> None:
    """Look for a better allocation by so many steps in a share of the time that is left, or in all of it."""
    finder = _finder(problem)
    if run.clock.expired() or finder.refusal(problem) is not None:
        return
    most = min(steps or MOST_ITERATIONS, budget.iterations or MOST_ITERATIONS)
    granted = run.clock.grant(1.0 if steps is None else SEARCH_SHARE, most)
    ask(finder, problem, granted, seed, problem, run)
