"""From prices to allocations: jobs are inserted where they save most, what the groups lose of their worth taken off."""

from collections.abc import Callable

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, fill_table, insertion_state, place_job
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_owners
from allocopt.problems.topology.tables import group_tree
from allocopt.solving.budget import Clock
from allocopt.solving.run import Run
from formulations.topology.prices.pricing import Priced, Pricing

SLICE = 4_000_000
"""Idle nodes times nodes of the inserted jobs between two looks at the clock: some milliseconds."""

RANDOM_ORDERS = 5

MOST_MOVED = 3
"""Sizes that change their places in the order at once, at most."""


@inlined
def _fill_charged_table(
    tree: GroupTree, state: InsertionState, v: int, size: int, worth: FloatArray, worth_of: IntArray
) -> None:
    start, idle = state.offset[v], state.idle[v]
    most = min(idle, size)
    if v < tree.leaf_first.size - 1:
        for k in range(most + 1):
            state.tables[start + k] = tree.weight[v] * k * k
    else:
        fill_table(tree, state, v, size)
    row = worth_of[v]
    for k in range(most + 1):
        state.tables[start + k] -= size * (worth[row + idle] - worth[row + idle - k])


@kernel(void(GROUP_TREE, INSERTION_STATE, int64[::1], float64[::1], int64[::1], int64, int64, int64[::1]))
def insert_at_prices(
    tree: GroupTree,
    state: InsertionState,
    sizes: IntArray,
    worth: FloatArray,
    worth_of: IntArray,
    first: int,
    last: int,
    owners: IntArray,
) -> None:
    """Insert the jobs ``first .. last - 1`` one after the other.

    Parameters
    ----------
    tree, state
        The groups, and the idle nodes after the jobs before ``first``; its tables are made anew.
    sizes
        Nodes of each job, equal ones best side by side, shape ``(J,)``.
    worth, worth_of
        Worth of c idle nodes of group v is ``worth[worth_of[v] + c]``, in hops; the top has none.
    first, last
        Which jobs to insert.
    owners
        Index of the job in ``sizes`` that gets each idle position, written in place, shape ``(m,)``.
    """
    top, n_leaves = tree.idle.size - 1, tree.leaf_first.size - 1
    for job in range(first, last):
        size = sizes[job]
        for v in range(top):
            if job == 0 or size != sizes[job - 1] or state.take[v] > 0:
                _fill_charged_table(tree, state, v, size, worth, worth_of)
        place_job(tree, state, size)
        for leaf in range(n_leaves):
            start = tree.leaf_first[leaf + 1] - state.idle[leaf]
            for index in range(start, start + state.take[leaf]):
                owners[tree.leaf_positions[index]] = job
        for v in range(top + 1):
            state.idle[v] -= state.take[v]


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
        classes = np.concatenate([*pricing.class_of_group, np.array([len(pricing.tree.widest) - 1])])
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

        There is a rank for each distinct size: with jobs of equal size side by side their tables are made once.
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
    problem, run, rounding
        The window, the record to which allocations are offered, and what makes them.
    seed
        Fixes the orders.
    """

    def __init__(self, problem: TopologyProblem, run: Run, rounding: Rounding, seed: int) -> None:
        self._problem, self._run, self._rounding = problem, run, rounding
        self._rng = np.random.default_rng(seed)
        self._best = rounding.random_ranks(self._rng)
        self._least = np.inf
        self._tried = 0

    def proceed(self, orders: int, may_go_on: Callable[[], bool]) -> None:
        """Try so many orders, or fewer if it may not go on or there is a proof."""
        rounding, rng = self._rounding, self._rng
        for _ in range(orders):
            if self._run.is_proved() or not may_go_on():
                return
            self._tried += 1
            is_random = self._tried <= RANDOM_ORDERS
            ranks = rounding.random_ranks(rng) if is_random else rounding.moved(self._best, rng)
            allocation = rounding.allocation(ranks, self._run.clock)
            if allocation is None:
                return
            cost = self._problem.objective(allocation)
            if cost <= self._least:
                self._best, self._least = ranks, cost
                self._run.offer(allocation)
