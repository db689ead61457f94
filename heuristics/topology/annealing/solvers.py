"""Solvers ``annealing`` and ``annealing-as-published``.

The NSA paper's move removes 1 to n_D jobs and re-inserts them, the largest first, each on consecutive idle nodes from a
random first one. Removing a job nested inside another leaves a hole that others may fill, so that the move reaches more
than DCAS: under strategy ``dcas`` every state is checked, and a move that leads to a crossing one is drawn again, some
times at most.

Under ``free`` the cost depends on counts alone: a move lets a job exchange nodes of one leaf for as many of another,
which other jobs have or nobody.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from allocopt.cluster.topology import hop_costs
from allocopt.errors import UsageError
from allocopt.kernels.random import lehmer_state
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_owners, encode, owners_of, sequential_allocation
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.topology import TopologySolver
from heuristics.topology.annealing.kernels import Rules, Swapping, Walk, anneal, anneal_by_swaps
from heuristics.topology.greedy import GREEDY_KERNELS, Greedy, insert_largest_first

MOST_JOBS = 20_000
MOST_REMOVED = 100

# Between two looks at the clock, some milliseconds: steps by the paper's move times the work of a step, and swaps.
WALK_SLICE, SWAPS_SLICE = 2_000_000, 100_000
OVERHEAD = 200  # work of a step by the paper's move on a window without nodes and jobs, counted in nodes
LARGEST_TABLE = 50_000_000  # groups times jobs up to which the counts are kept, 4 bytes each


@dataclass(frozen=True, slots=True)
class Schedule:
    """A geometric cooling schedule, in units that do not depend on the cost of a hop.

    Parameters
    ----------
    hottest, coldest
        Temperature at the first and the last step, as multiples of the cost of one hop, positive and falling.
    steps
        Steps from the one to the other, at least 1.
    most_removed
        Largest number of jobs that a move removes, 1 .. 100; n_D in the NSA paper.

    Raises
    ------
    UsageError
        If a value is out of range.
    """

    hottest: float
    coldest: float
    steps: int
    most_removed: int

    def __post_init__(self) -> None:
        if not 0 < self.coldest <= self.hottest < float("inf"):
            raise UsageError(f"temperatures must fall and be positive, not from {self.hottest} to {self.coldest}")
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}, must be at least 1")
        if not 1 <= self.most_removed <= MOST_REMOVED:
            raise UsageError(f"most_removed is {self.most_removed}, must be within 1 .. {MOST_REMOVED}")


def walk_from(problem: TopologyProblem, allocation: Allocation) -> Walk:
    """Return a walk by the paper's move that stands at an allocation."""
    owners = owners_of(problem, allocation)
    costs = hop_costs(problem.topology, problem.hop_cost, allocation.nodes)
    totals = np.array([costs.sum(), costs.sum()])
    return Walk(owners, owners.copy(), owners.copy(), costs, costs.copy(), totals)


def rules_of(problem: TopologyProblem, schedule: Schedule, steps: int, *, restores: bool) -> Rules:
    """Return the rules of that walk for a problem: under ``dcas`` every state must be non-crossing."""
    return Rules(
        float(schedule.hottest * problem.hop_cost),
        float(schedule.coldest * problem.hop_cost),
        steps,
        schedule.most_removed,
        problem.strategy is Strategy.DCAS,
        restores,
    )


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

    restores: ClassVar[bool] = True

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
        return self.walk(problem, schedule, seed, run)

    def walk(self, problem: TopologyProblem, schedule: Schedule, seed: int, run: Run) -> StopReason:
        """Take all steps from the incumbent, or as many as the time allows; offer what a slice ends with if better."""
        window, walk = encode(problem), walk_from(problem, run.solution)
        rules = rules_of(problem, schedule, schedule.steps, restores=self.restores)
        rng, best = np.random.default_rng(seed), float("inf")
        per_slice = max(1, WALK_SLICE // (len(problem.idle_nodes) + len(problem.jobs) + OVERHEAD))
        for first in range(0, rules.steps, per_slice):
            if run.clock.expired():
                return StopReason.TIME_LIMIT
            anneal(window, walk, rules, first, min(rules.steps, first + per_slice), rng)
            if walk.totals[1] < best:
                best = float(walk.totals[1])
                run.offer(allocation_of_owners(problem, walk.best))
        return StopReason.ITERATIONS


@dataclass(frozen=True, slots=True)
class AnnealingAsPublished(WindowAnnealing):
    """The walk that the NSA authors' code takes, to reproduce the paper's Table III; only there to be compared with.

    A rejected move restores the energy that the next one is compared with, but not the allocation that it starts from,
    so that most moves start from a state that was not accepted. The temperatures are those of the code (25,000 to 2.5
    at 1,000 a hop), not of Table I. Its reachable set is wider than DCAS: strategy ``free``.
    """

    hottest: float = 25.0
    coldest: float = 0.0025
    most_removed: int = 2

    name: ClassVar[str] = "annealing-as-published"
    restores: ClassVar[bool] = False
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )


def has_table(problem: TopologyProblem) -> bool:
    """Whether the counts of the window are few enough to be kept, and there is a level that tells nodes apart."""
    levels = len(problem.topology.hops) - 1
    most = levels * len(problem.idle_nodes) * (len(problem.jobs) + 1)
    if 0 < most <= LARGEST_TABLE:
        return True
    n_groups = int(encode(problem).n_groups.sum())
    return levels > 0 and n_groups * (len(problem.jobs) + 1) <= LARGEST_TABLE


def swapping_from(problem: TopologyProblem, allocation: Allocation, seed: int) -> Swapping:
    """Return a walk on counts that stands at an allocation."""
    encoding, n_jobs = encode(problem), len(problem.jobs)
    first = np.cumsum(encoding.n_groups) - encoding.n_groups
    groups = np.ascontiguousarray((encoding.groups + first[:, np.newaxis]).T)
    owners = owners_of(problem, allocation)
    owners[owners < 0] = n_jobs
    counts = np.zeros((n_jobs + 1, int(encoding.n_groups.sum())), dtype=np.int32)
    for of_level in groups.T:
        np.add.at(counts, (owners, of_level), 1)
    return Swapping(
        owners,
        counts,
        groups,
        np.argsort(groups[:, 0], kind="stable"),
        np.append(0, np.cumsum(np.bincount(groups[:, 0]))),
        encoding.weights,
        np.append(1.0 / encoding.sizes, 0.0),
        np.zeros(1),
        lehmer_state(seed),
    )


def allocation_at(problem: TopologyProblem, swapping: Swapping) -> Allocation:
    """Return the allocation where a walk on counts stands."""
    n_jobs = len(problem.jobs)
    return allocation_of_owners(problem, np.where(swapping.owners == n_jobs, -1, swapping.owners))


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
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.DCAS, Strategy.FREE}), frozenset({Promise.ANYTIME}), f"{MOST_JOBS:,} jobs"
    )

    def __post_init__(self) -> None:
        WindowAnnealing.__post_init__(self)
        Schedule(self.swap_hottest, self.swap_coldest, self.swaps, self.most_removed)

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
        swapping, steps, offered = swapping_from(problem, run.solution, seed), budget.iterations or self.swaps, 0.0
        cooling = np.log(self.swap_coldest / self.swap_hottest) / steps
        for first in range(0, steps, SWAPS_SLICE):
            if run.clock.expired():
                return StopReason.TIME_LIMIT
            last = min(steps, first + SWAPS_SLICE)
            hot, cold = (float(self.swap_hottest * np.exp(cooling * step)) for step in (first, last))
            anneal_by_swaps(swapping, last - first, hot, cold)
            # Sums of fractions: what is better by less than this is not better.
            if swapping.saving[0] > offered + 1e-9:
                offered = float(swapping.saving[0])
                run.offer(allocation_at(problem, swapping))
        return StopReason.ITERATIONS
