"""The steps from an allocation to its proof, between costs and savings."""

import math

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_owners, encode, owners_of
from allocopt.problems.topology.tables import constant_hops, group_tree
from allocopt.solving.run import Run
from formulations.topology.free.columns import ColumnGeneration
from formulations.topology.free.kernels import Layers
from formulations.topology.free.layers import LayeredSearch, Order, Outcome, layers_of, seconds_to_fill, takes
from formulations.topology.free.pricing import Demand, Pricing

SHARES = (0.15, 0.3, 0.45, 0.6, 0.8, 1.0)
"""Shares of the distance between incumbent and bound that are searched one after the other: the regret of the optimum
is mostly far below the distance, and the number of states grows exponentially with what is allowed."""

NO_SAVING = -1.0
"""Less than any allocation saves, in hops."""

TOLERANCE = 1e-10
"""Savings within this distance are equal, relative to the hops of all jobs without any saving."""

TRIED, LEAST_TRIED, LONG_S = 100_000, 1000, 0.25
"""Choices tried between two looks at the clock where so many seconds are left, some milliseconds, and at least."""

FIRST_STATES, GROWTH = 10_000, 8
"""States of the first attempt in every order of the pods, and how much more the next attempt may have."""


SETUP_S, NODE_S, PRODUCT_S = 1e-3, 2e-6, 1e-8
"""Seconds before the first bound: in any case, by idle node, and by product of idle nodes with levels and nodes of the
largest job, or with a fifth of the jobs."""


def seconds_to_set_up(problem: TopologyProblem) -> float:
    """Return how long it takes, about, until a `Closing` can bound a window."""
    levels, largest, n_jobs = len(problem.topology.hops), int(problem.sizes.max()), len(problem.jobs)
    return SETUP_S + len(problem.idle_nodes) * (NODE_S + PRODUCT_S * (levels * largest + 5 * n_jobs))


class Closing:
    """Bounds the incumbent of a record, and closes the gap.

    Parameters
    ----------
    problem
        The window.
    run
        The record; without an incumbent, the search is for any allocation.
    steps
        Rounds of the column generation and slices of layers that may be spent; None for no limit.
    """

    def __init__(self, problem: TopologyProblem, run: Run, steps: int | None) -> None:
        self._problem, self._run = problem, run
        self._steps: float = math.inf if steps is None else steps
        encoding = encode(problem)
        self._tree = group_tree(encoding)
        self._scale = encoding.scale
        self._hops = constant_hops(problem, encoding)
        self._tolerance = TOLERANCE * max(1.0, abs(self._hops))
        self._demand = Demand.of(problem, encoding, self._tree)
        self._pricing = Pricing(self._tree, self._demand)
        self._generation = ColumnGeneration(self._pricing, run.clock, self._may_go_on)
        if not self._pricing.is_possible:
            run.prove_infeasible()
        elif run.solution is None:
            self._generation.allow_unplaced()
        else:
            self._generation.add_allocation(self._counts())

    def bound(self) -> None:
        """Generate columns, and record the bound."""
        self._generation.converge()
        self._prove(self._generation.best.bound)
        if self._run.solution is None and self._generation.best.bound < -self._tolerance:
            # No saving is negative: jobs go without nodes wherever the others get theirs.
            self._run.prove_infeasible()

    def strengthen(self, least_progress: float) -> None:
        """Add cuts as long as a round closes at least this part of the distance, and record the bound."""
        distance, before = self.distance(), math.inf
        while 0.0 < distance < (1.0 - least_progress) * before and self._generation.cut():
            before = distance
            self.bound()
            distance = self.distance()

    def distance(self) -> float:
        """Return what an allocation may at most save more than the incumbent, in hops; 0 if that is rounding alone."""
        saved = NO_SAVING
        if self._run.solution is not None:
            saved = float(self._pricing.savings_of(self._counts()).sum())
        distance = self._generation.best.bound - saved
        return distance if distance > self._tolerance else 0.0

    def close(self, most_states: int) -> bool:
        """Search the leaves within growing shares of the distance, and record what is found and proved.

        Gives up after ``most_states``; returns whether the incumbent is proved optimal.
        """
        distance, demand, best = self.distance(), self._demand, self._generation.best
        if distance == 0.0:
            return self._settle()
        filling_s = len(Order) * seconds_to_fill(self._tree, demand)
        if not takes(self._tree, demand) or self._run.clock.remaining() < filling_s:
            return False
        search = LayeredSearch(len(demand.of_job), int(self._pricing.idle.max()), most_states)
        orders = [layers_of(self._tree, demand, best.charge, order) for order in Order]
        for share in SHARES:
            slack = share * distance - (self._tolerance if share == SHARES[-1] else 0.0)
            outcome, layers = self._race(search, orders, slack)
            self._prove(best.bound - slack + max(0.0, outcome.most_left))
            if outcome.counts is not None:
                self._run.offer(self._allocation(outcome.counts))
                return self._settle()
            if not outcome.complete:
                return False
            orders = [layers]
        return self._settle()

    def _race(self, search: LayeredSearch, orders: list[Layers], slack: float) -> tuple[Outcome, Layers]:
        """Search in several orders of the pods within growing numbers of states, until one is done.

        Return the outcome with the fewest states, and its order; else that which leaves the least.
        """
        limit = min(FIRST_STATES, search.most_states)
        while True:
            outcomes = []
            for layers in orders:
                # Fewer choices between two looks at the clock where the time is short.
                tried = int(max(LEAST_TRIED, min(1.0, self._run.clock.remaining() / LONG_S) * TRIED))
                outcomes.append((search.run(layers, slack, self._may_go_on, limit, tried), layers))
            done = [(outcome, layers) for outcome, layers in outcomes if outcome.complete]
            if done:
                return min(done, key=lambda pair: pair[0].n_states)
            if limit == search.most_states or self._run.clock.expired() or self._steps <= 0:
                return min(outcomes, key=lambda pair: pair[0].most_left)
            limit = min(GROWTH * limit, search.most_states)

    def _may_go_on(self) -> bool:
        """Spend a step, and say whether steps and time are left."""
        self._steps -= 1
        return self._steps >= 0 and not self._run.clock.expired()

    def _prove(self, saving: float) -> None:
        self._run.prove(self._scale * (self._hops - saving))

    def _settle(self) -> bool:
        if self._run.objective is None:
            self._run.prove_infeasible()
        else:
            self._run.prove(self._run.objective)
        return True

    def _counts(self) -> IntArray:
        """Nodes of every vertex that each job of the demand has in the incumbent, shape ``(J, V)``."""
        owners = owners_of(self._problem, self._run.solution)[self._tree.leaf_positions]
        leaves = np.repeat(np.arange(self._pricing.n_leaves), self._pricing.idle)
        counts = np.zeros((len(self._demand.of_job), self._pricing.n_leaves), dtype=np.int64)
        np.add.at(counts, (owners[owners >= 0], leaves[owners >= 0]), 1)
        if len(counts) > len(self._problem.jobs):
            counts[-1] = self._pricing.idle - counts.sum(axis=0)
        return self._pricing.counts_of_vertices(counts)

    def _allocation(self, counts: IntArray) -> Allocation:
        counts = counts[: len(self._problem.jobs)]
        unused = self._pricing.idle - counts.sum(axis=0)
        jobs = np.append(np.arange(len(counts)), -1)
        owners = np.empty(len(self._problem.idle_nodes), dtype=np.int64)
        given = np.vstack((counts, unused)).T
        owners[self._tree.leaf_positions] = np.repeat(np.tile(jobs, len(given)), given.ravel())
        return allocation_of_owners(self._problem, owners)
