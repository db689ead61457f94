"""Solver ``prices``: a bound of FREE by prices of parts, and allocations that follow them."""

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import Encoding, FloatArray
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import encode, owners_of, sequential_allocation
from allocopt.solving.base import ask
from allocopt.solving.budget import LEAST_S, MOST_ITERATIONS, Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback, Promise
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run
from allocopt.topology import TopologySolver
from formulations.topology.free.closing import Closing, seconds_to_set_up
from formulations.topology.free.solver import EXACT_KERNELS, ExactFree, installed
from formulations.topology.prices.columns import Ascent
from formulations.topology.prices.pricing import Priced, Pricing, best_parts, best_sales
from formulations.topology.prices.rounding import RANDOM_ORDERS, OrderSearch, Rounding, insert_at_prices

STARTS = ("best-fit", "greedy")
SEARCHES = ("lns",)
"""Who finds an allocation to begin with, and who improves the best one at the end: the first that is installed."""

STEPS_PER_JOB = 10_000
"""Steps of the search at the end for each job, at most."""

MOST_ROWS, MOST_WORK = 1000, 20_000_000
"""Parts whose prices a master problem finds in seconds, and additions of an answer to prices, some ten milliseconds,
up to which groups stay apart."""

ORDERS, ORDERS_SHARE = 100, 0.2
"""Orders of the jobs' sizes that are tried if there is no time limit, and the share of the time that is left in which
they are if there is."""

BOUND_SHARE = 0.3
"""Share of the time that is left for more bounds."""

MOST_CHARGED = 2_000_000
"""Idle nodes times levels times nodes of the largest job up to which nodes are charged for leaf by leaf."""

LEAST_PROGRESS = 0.02
"""Part of the gap that a round of cuts has to close for another one."""

LARGEST_PRICING, LARGEST_INSERTION = 50_000_000, 50_000_000
"""Additions of one answer to prices, some ten milliseconds. Idle nodes times levels times nodes of the largest job
above which a single insertion may take a noticeable part of a second."""

MOST_IDLE, MOST_JOBS = 1_000_000, 20_000


class LeafPrices(TopologySolver):
    """Bounds the cost by prices for parts of leaves and pods, and inserts the jobs where the prices say.

    A budget's iterations are master problems, and then allocations and steps of the search that improves the best one.
    """

    name: ClassVar[str] = "prices"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}),
        frozenset({Promise.ANYTIME, Promise.BOUND}),
        f"{MOST_IDLE:,} idle nodes, {MOST_JOBS:,} jobs, {LARGEST_PRICING:,} nodes of all sizes and of the largest "
        "group x nodes of the largest part, over the levels",
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        n_idle, n_jobs, sizes = len(problem.idle_nodes), len(problem.jobs), np.unique(problem.sizes)
        if n_idle > MOST_IDLE or n_jobs > MOST_JOBS:
            return f"it has {n_idle:,} idle nodes and {n_jobs:,} jobs; {self.capabilities.largest} are taken"
        levels = problem.topology.groups_of(problem.idle_nodes)
        widest = [int(np.unique(groups, return_counts=True)[1].max()) for groups in levels]
        # Additions of the jobs' programs and of the groups' knapsacks, level by level.
        work = sum(
            int((sizes * np.minimum(sizes, nodes)).sum()) + nodes * min(nodes, int(sizes[-1])) for nodes in widest
        )
        if work <= LARGEST_PRICING:
            return None
        return f"{work:,} is the product of nodes; {self.capabilities.largest} are taken"

    def solve(
        self,
        problem: TopologyProblem,
        budget: Budget,
        seed: int,
        warm_start: Allocation | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Load the other solvers, and their kernels with them, before the clock starts; then solve."""
        for names in (STARTS, SEARCHES):
            next(installed(names), None)
        return super().solve(problem, budget, seed, warm_start, on_incumbent)

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        asked = (next(installed(STARTS), None), next(installed(SEARCHES), None))
        others = (entry for solver in asked for entry in (solver.kernels(problem) if solver else ()))
        return (*EXACT_KERNELS, best_parts, best_sales, insert_at_prices, *others)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Bound, insert by prices, and improve; see `TopologySolver.search`."""
        _ask(STARTS, problem, run, budget, seed, 0.3)
        if run.solution is None:
            run.offer(sequential_allocation(problem))
        if not run.interrupted and not run.clock.expired():
            _Bounding(problem, run, budget).proceed(seed)
        if not (run.interrupted or run.clock.expired() or run.is_proved()):
            _ask(SEARCHES, problem, run, budget, seed, 1.0)
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        return StopReason.COMPLETED if budget.iterations is None else StopReason.ITERATIONS


class _Bounding:
    """The steps from an allocation to bounds and better allocations."""

    def __init__(self, problem: TopologyProblem, run: Run, budget: Budget) -> None:
        self._problem, self._run, self._budget = problem, run, budget
        self._encoding: Encoding = encode(problem)
        self._steps: float = math.inf if budget.iterations is None else budget.iterations
        self._deadline = math.inf

    def proceed(self, seed: int) -> None:
        """Find prices for merged groups, allocations that follow them, and more bounds."""
        top = len(self._encoding.groups)
        pricing = Pricing(self._encoding, top)
        priced = self._climb(pricing, np.zeros(pricing.tree.n_rows))
        rounding = Rounding(self._problem, self._encoding, pricing, priced)
        orders = OrderSearch(self._problem, self._run, rounding, seed)
        most = self._budget.iterations or (ORDERS if self._budget.seconds is None else MOST_ITERATIONS)
        most = most if self._insertion_work() <= LARGEST_INSERTION else 0
        orders.proceed(min(RANDOM_ORDERS, most), self._has_time)
        self._set_deadline(BOUND_SHARE)
        self._charge()
        self._refine(pricing, priced)
        self._set_deadline(ORDERS_SHARE)
        orders.proceed(most, self._has_time)

    def _refine(self, pricing: Pricing, priced: Priced) -> None:
        """Let groups stay apart, level by level, as long as there are few prices to find."""
        for level in range(len(self._encoding.groups) - 1, -1, -1):
            if self._run.is_proved() or not self._may_go_on():
                return
            finer = Pricing(self._encoding, level)
            if finer.tree.n_rows > MOST_ROWS or finer.work() > MOST_WORK:
                return
            priced = self._climb(finer, finer.inherited(pricing, priced.prices))
            pricing = finer

    def _charge(self) -> None:
        """Record what charges per node, and cuts, prove where `exact` takes the window."""
        if self._insertion_work() > MOST_CHARGED or ExactFree().refusal(self._problem) is not None:
            return
        if not self._may_go_on() or self._remaining() < seconds_to_set_up(self._problem):
            return
        seconds = None if self._budget.seconds is None else max(LEAST_S, self._remaining())
        part = Run(ExactFree(), self._problem, Budget(seconds), 0, self._run.solution)
        closing = Closing(self._problem, part, self._budget.iterations)
        closing.bound()
        closing.strengthen(LEAST_PROGRESS)
        if part.bound is not None:
            self._run.prove(part.bound)

    def _climb(self, pricing: Pricing, prices: FloatArray) -> Priced:
        owners = owners_of(self._problem, self._run.solution)
        ascent = Ascent(self._encoding, pricing, prices, owners)
        ascent.climb(self._remaining, self._may_go_on)
        hops = float((self._encoding.top * self._problem.sizes - self._encoding.bottom).sum())
        self._run.prove(self._encoding.scale * (hops - ascent.best.bound))
        return ascent.best

    def _insertion_work(self) -> int:
        levels, largest = len(self._problem.topology.hops), int(self._problem.sizes.max())
        return len(self._problem.idle_nodes) * levels * largest

    def _set_deadline(self, share: float) -> None:
        self._deadline = self._run.clock.elapsed() + share * self._run.clock.remaining()

    def _remaining(self) -> float:
        clock = self._run.clock
        return min(clock.remaining(), self._deadline - clock.elapsed())

    def _may_go_on(self) -> bool:
        """Spend a step, and say whether steps and time are left."""
        self._steps -= 1
        return self._steps >= 0 and self._has_time()

    def _has_time(self) -> bool:
        return self._remaining() > 0.0


def _ask(names: tuple[str, ...], problem: TopologyProblem, run: Run, budget: Budget, seed: int, share: float) -> None:
    solver = next(installed(names), None)
    if solver is None or run.clock.expired() or solver.refusal(problem) is not None:
        return
    steps = min(STEPS_PER_JOB * len(problem.jobs), budget.iterations or MOST_ITERATIONS)
    ask(solver, problem, run.clock.grant(share, steps), seed, problem, run)
