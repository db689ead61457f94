"""Solver ``annealing``: Metropolis annealing, under ``dcas`` with the NSA paper's move, under ``free`` on counts.

The paper's move removes 1 to n_D jobs and re-inserts them, the largest first, each on consecutive idle nodes from a
random first one. Removing a job nested inside another leaves a hole that others may fill, so that the move reaches more
than DCAS: under strategy ``dcas`` every state is checked, and a move that leads to a crossing one is drawn again, some
times at most.

Under ``free`` the cost depends on counts alone: a move lets a job exchange nodes of one leaf for as many of another,
which other jobs have or nobody.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import sequential_allocation
from heuristics.annealing.counts import has_table, swap_until_done
from heuristics.annealing.kernels import anneal
from heuristics.annealing.schedule import Schedule
from heuristics.annealing.swaps import anneal_by_swaps
from heuristics.annealing.walk import rules_of, walk_from, walk_until_done
from heuristics.greedy import GREEDY_KERNELS, Greedy, insert_largest_first

MOST_JOBS = 20_000


@dataclass(frozen=True, slots=True)
class WindowAnnealing(TopologySolver):
    """Annealing with the paper's move; O(m) a step.

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

    restores: ClassVar[bool]

    def __post_init__(self) -> None:
        Schedule(self.hottest, self.coldest, self.steps, self.most_removed)

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        n_jobs = len(problem.jobs)
        return None if n_jobs <= MOST_JOBS else f"it has {n_jobs:,} jobs, at most {MOST_JOBS:,} are taken"

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        return (anneal,)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Anneal from the warm start or the sequential allocation; see `TopologySolver.search`."""
        if run.solution is None:
            run.offer(sequential_allocation(problem))
        schedule = Schedule(self.hottest, self.coldest, budget.iterations or self.steps, self.most_removed)
        rules = rules_of(problem, schedule, schedule.steps, restores=self.restores)
        return walk_until_done(problem, walk_from(problem, run.solution), rules, seed, run)


@dataclass(frozen=True, slots=True)
class Annealing(WindowAnnealing):
    """Proper Metropolis annealing: the paper's move under ``dcas``, swaps of nodes under ``free``.

    Where the counts of a window would not fit into memory, ``free`` is searched with the paper's move too.

    Parameters
    ----------
    hottest, coldest, steps, most_removed
        Under ``dcas``; see `WindowAnnealing`.
    swap_hottest, swap_coldest
        First and last temperature under ``free``, as multiples of the cost of one hop.
    swaps
        Steps under ``free`` where the budget sets no iterations; O(levels) each.
    """

    swap_hottest: float = 1.0
    swap_coldest: float = 0.05
    swaps: int = 100_000

    name: ClassVar[str] = "annealing"
    restores: ClassVar[bool] = True
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )

    def __post_init__(self) -> None:
        WindowAnnealing.__post_init__(self)
        self._swapping(self.swaps)

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        if problem.strategy is Strategy.DCAS or not has_table(problem):
            return WindowAnnealing.kernels(self, problem)
        return (*GREEDY_KERNELS, anneal_by_swaps)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Anneal from the warm start, or under ``free`` from the greedy one; see `TopologySolver.search`."""
        if problem.strategy is Strategy.DCAS or not has_table(problem):
            return WindowAnnealing.search(self, problem, run, budget, seed)
        if run.solution is None:
            run.offer(sequential_allocation(problem))
            if Greedy().refusal(problem) is None:
                run.offer(insert_largest_first(problem, run)[0])
        if run.is_proved():
            return StopReason.PROVED
        return swap_until_done(problem, self._swapping(budget.iterations or self.swaps), seed, run)

    def _swapping(self, steps: int) -> Schedule:
        """Return the cooling schedule under ``free``; raises `UsageError` where the options make none."""
        return Schedule(self.swap_hottest, self.swap_coldest, steps, self.most_removed)
