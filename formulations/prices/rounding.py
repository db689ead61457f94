"""From prices to allocations: jobs are inserted one by one, groups losing worth."""

from collections.abc import Callable

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import insertion_state
from allocopt.problems.encoding import Encoding, allocation_of_owners
from allocopt.problems.group_tree import group_tree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.budget import Clock
from allocopt.solving.run import Run
from formulations.prices.insertion import insert_at_prices
from formulations.prices.pricing import Priced, Pricing

SLICE = 4_000_000
"""Idle nodes times nodes of the inserted jobs between two looks at the clock: some milliseconds."""

RANDOM_ORDERS = 5

MOST_MOVED = 3
"""Sizes that change their places in the order at once, at most."""


class Rounding:
    """Makes allocations from the worth of idle nodes.

    Parameters
    ----------
    problem, encoding
        The window.
    pricing, priced
        The classes, and what is known of them at good prices.
    """

    def __init__(self, problem: TopologyProblem, encoding: Encoding, pricing: Pricing, priced: Priced) -> None:
        self._problem = problem
        self._tree = group_tree(encoding)
        self._worth = priced.worth
        classes = np.concatenate([*pricing.merging.class_of_group, np.array([len(pricing.tree.widest) - 1])])
        self._worth_of: IntArray = pricing.tree.worth_first[classes]
        self._sizes = pricing.sizes
        self._size_of_job: IntArray = np.searchsorted(pricing.sizes, problem.sizes)

    def random_ranks(self, rng: np.random.Generator) -> FloatArray:
        """Return ranks that put the sizes into any order with equal chances, shape ``(R,)``."""
        return rng.random(len(self._sizes))

    def moved(self, ranks: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return ranks in which up to three sizes have moved somewhere else."""
        changed = ranks.copy()
        which = rng.integers(len(ranks), size=rng.integers(1, MOST_MOVED + 1))
        changed[which] = rng.uniform(-0.1, 1.1, size=len(which))
        return changed

    def allocation(self, ranks: FloatArray, clock: Clock) -> Allocation | None:
        """Insert the jobs, those of least rank first; None if the time runs out before the last one.

        Parameters
        ----------
        ranks
            One for each distinct size; with jobs of equal size side by side their tables are made once.
        clock
            The running time.
        """
        order = np.argsort(ranks[self._size_of_job], kind="stable")
        sizes = self._problem.sizes[order]
        state = insertion_state(self._tree, int(sizes.max()))
        owners = np.full(len(self._problem.idle_nodes), -1, dtype=np.int64)
        per_slice = max(1, SLICE // (len(owners) * int(sizes.max())))
        for first in range(0, len(sizes), per_slice):
            if clock.expired():
                return None
            last = min(len(sizes), first + per_slice)
            insert_at_prices(self._tree, state, sizes, self._worth, self._worth_of, first, last, owners)
        return allocation_of_owners(self._problem, np.append(order, -1)[owners])


class OrderSearch:
    """Tries orders of the sizes: random ones, then such as are close to the best one.

    Parameters
    ----------
    problem, run
        The window, and the record to which allocations are offered.
    rounding
        Makes allocations.
    seed
        Fixes the orders.
    """

    def __init__(self, problem: TopologyProblem, run: Run, rounding: Rounding, seed: int) -> None:
        self._problem = problem
        self._run = run
        self._rounding = rounding
        self._rng = np.random.default_rng(seed)
        self._best = rounding.random_ranks(self._rng)
        self._least = np.inf
        self._tried = 0

    def proceed(self, orders: int, may_go_on: Callable[[], bool]) -> None:
        """Try so many orders, or fewer if it may not go on or there is a proof."""
        for _ in range(orders):
            if self._run.is_proved() or not may_go_on():
                return
            ranks = self._next()
            allocation = self._rounding.allocation(ranks, self._run.clock)
            if allocation is None:
                return
            cost = self._problem.objective(allocation)
            if cost <= self._least:
                self._best, self._least = ranks, cost
                self._run.offer(allocation)

    def _next(self) -> FloatArray:
        """Return ranks to be tried."""
        self._tried += 1
        if self._tried <= RANDOM_ORDERS:
            return self._rounding.random_ranks(self._rng)
        return self._rounding.moved(self._best, self._rng)
