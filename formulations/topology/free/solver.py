"""Solver ``exact``: exact FREE.

A search finds an allocation, column generation (`pricing`) gives a bound, cuts strengthen the bound, and a search over
the leaves closes the gap (`layers`).
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from ortools.linear_solver import pywraplp

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import MissingPackageError, UsageError
from allocopt.formulations.topology.column_generation import Generation, RestrictedMaster
from allocopt.formulations.topology.free.layers import LAYER_KERNELS, LayeredSearch, Layers, Order
from allocopt.formulations.topology.free.pricing import PRICING_KERNELS, Demand, PricedPatterns, Pricing
from allocopt.problems.base import Strategy
from allocopt.problems.certificate import Certificate
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.certificates import PartPrices
from allocopt.problems.topology.second_search import Searched
from allocopt.problems.topology.tables import (
    TREE_KERNELS,
    constant_hops,
    encode,
    group_prices,
    group_tree,
    job_classes,
)
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.base import ask
from allocopt.solving.budget import MOST_ITERATIONS, Budget, Clock
from allocopt.solving.protocol import Solver, get_solver
from allocopt.topology import TopologySolver

SEARCHES = ("lns", "greedy")  # solvers that find allocations; the first installed one is used
# Steps of the search for an allocation: at first; after a bound that leaves a gap; and after a failed proof, if there
# is no time limit.
STEPS, MORE_STEPS, LAST_STEPS = 1000, 2000, 20_000
MOST_STATES = 100_000_000
# LEAST_PROGRESS: share of the gap that a round of cuts has to close for another one to follow. EFFORTS: most states of
# the searches, each after rounds of cuts. Cuts come first: certifying a bound takes a millisecond after cuts, but a
# second search after a search.
LEAST_PROGRESS, EFFORTS = 0.01, (5_000, 100_000, MOST_STATES)
# Share of the remaining time for a search for allocations; share and steps if too little time is left for a bound.
SEARCH_SHARE, ALL_THAT_IS_LEFT = 2 / 3, (1.0, MOST_ITERATIONS)
LEAST_SEARCH_S = 5e-4  # seconds that another search takes besides its steps; with less time, none is begun
# Most idle nodes times levels times nodes of the largest job, for which a round of pricing takes some tenths of a
# second; and most idle nodes times jobs, because the counts of all jobs are kept.
LARGEST, MOST_COUNTS = 20_000_000, 10_000_000
LARGEST_MULTIPLIER = 2  # cuts round the capacity times 1/2, 1/3, 1/4, .. and 2/3, 2/5, 2/7, ..
LEAST_VIOLATION = 1e-3
UNPLACED = 10.0  # price of a job without nodes, as a multiple of the bound on all savings
# Shares of the distance between incumbent and bound that are searched in turn. The regret of the optimum is mostly far
# below the distance, and the number of states grows exponentially with the allowed regret.
SHARES = (0.15, 0.3, 0.45, 0.6, 0.8, 1.0)
NO_SAVING = -1.0  # less than any allocation saves, in hops
TOLERANCE = 1e-10  # smaller differences of savings are rounding; relative to the hops without any saving
# Choices between two looks at the clock (some milliseconds): TRIED if at least LONG_S seconds are left, in proportion
# if fewer, but at least LEAST_TRIED.
TRIED, LEAST_TRIED, LONG_S = 100_000, 1000, 0.25
# Most states of the first attempt in every order of the pods, and factor by which they grow in the next attempts.
FIRST_STATES, GROWTH = 10_000, 8
# Estimated seconds before the first bound:
# SETUP_S + idle nodes x (NODE_S + PRODUCT_S x (levels x nodes of the largest job + 5 x jobs)).
SETUP_S, NODE_S, PRODUCT_S = 1e-3, 2e-6, 1e-8
EXACT_KERNELS = (*TREE_KERNELS, *PRICING_KERNELS, *LAYER_KERNELS)  # compiled functions that Python calls


class _Master(RestrictedMaster[PricedPatterns]):
    """The master problem, with the rows of a pricing."""

    def __init__(self, pricing: Pricing) -> None:
        super().__init__(pricing.multiplicity, 0)
        self._pricing = pricing
        self._columns: list[pywraplp.Variable] = []
        self._counts: list[IntArray] = []
        self.add_rows()

    def right_side(self, row: int) -> float:
        return float(self._pricing.values[row][-1])

    def add_rows(self) -> None:
        """Add the new rows of the pricing."""
        counts, known, self.n_rows = np.array(self._counts), self.n_rows, len(self._pricing.rows)
        for index in range(known, self.n_rows):
            constraint, row = self.row(index), self._pricing.rows[index]
            values = row.values(counts[:, row.vertex]) if self._columns else np.zeros(0)
            for column in np.flatnonzero(values).tolist():
                constraint.SetCoefficient(self._columns[column], float(values[column]))

    def add(self, r: int, counts: IntArray, saving: float) -> bool:
        """Add the pattern of class r with ``counts`` nodes of each vertex; return False if it exists already."""
        taken = counts.tolist()
        values = ((k, row.multiplier * taken[row.vertex] // row.divisor) for k, row in enumerate(self._pricing.rows))
        amounts = ((k, float(value)) for k, value in values if value)
        column = self.column(self.jobs[r], counts.tobytes(), float(saving), amounts)
        if column is not None:
            self._columns.append(column)
            self._counts.append(counts)
        return column is not None

    def add_answers(self, answer: PricedPatterns) -> bool:
        patterns = zip(answer.counts, answer.savings.tolist(), strict=True)
        return any([self.add(r, counts, saving) for r, (counts, saving) in enumerate(patterns)])

    def patterns_in_use(self) -> tuple[IntArray, FloatArray]:
        """Return the patterns that the last solve picked, shape ``(P, V)``, and how often."""
        picked = np.array([column.solution_value() for column in self._columns])
        use = np.flatnonzero(picked > 1e-9)
        return np.array([self._counts[column] for column in use]), picked[use]


class _ColumnGeneration(Generation[PricedPatterns]):
    """The bound of FREE by column generation, followed by cuts.

    The master problem picks one pattern for every job: the number of nodes that it takes of every group. No leaf gives
    more nodes than it has. Equal jobs share their patterns, and cuts are further rows. For any charges for nodes

        sum_r e_r max_p (saving_r(p) - charge(p)) + largest income from charges

    is at least the largest saving of any allocation (a Lagrangian bound). So the generation can stop at any time.
    """

    equal_relative = 1e-9

    def __init__(self, pricing: Pricing, clock: Clock, may_go_on: Callable[[], bool]) -> None:
        started = clock.elapsed()
        self._pricing, self._clock, self._may_go_on = pricing, clock, may_go_on
        self._master = _Master(pricing)
        self._converged = False
        super().__init__(pricing.at, self._master, pricing.at(np.zeros(pricing.n_leaves)))
        if pricing.is_possible:
            self._master.add_answers(self.best)
        # Estimate of the seconds of another round: those of the round before.
        self._round_s = clock.elapsed() - started

    def add_allocation(self, counts: IntArray) -> None:
        """Add the patterns of an allocation, shape ``(J, V)``, so that the master problem has a solution."""
        classes = self._pricing.demand.of_job.tolist()
        for r, job, saving in zip(classes, counts, self._pricing.savings_of(counts).tolist(), strict=True):
            self._master.add(r, job, saving)

    def allow_unplaced(self) -> None:
        """Allow jobs without nodes, at a price above all savings, so that the master problem has a solution."""
        # The price is finite, because it is the saving of a column of the master problem.
        self._pricing.least_value = -UNPLACED * (1.0 + abs(self.best.bound))
        nothing = np.zeros(len(self._pricing.tree.idle), dtype=np.int64)
        for r in range(len(self._pricing.sizes)):
            self._master.add(r, nothing, self._pricing.least_value)

    def proceed(self) -> bool:
        """Converge, unless the time is too short for the next round; see `Generation.converge`."""
        began: float | None = None

        def may_go_on() -> bool:
            nonlocal began
            now = self._clock.elapsed()
            self._round_s, began = self._round_s if began is None else now - began, now
            return self._clock.remaining() >= self._round_s and self._may_go_on()

        self._converged = self.converge(self._clock.remaining, may_go_on)
        return self._converged

    def cut(self) -> bool:
        """Add the most violated cut of every group; return whether there is one.

        Does nothing unless the generation has converged.
        """
        if not self._converged:
            return False
        violation, cuts = self._pricing.most_violated(*self._master.patterns_in_use(), LARGEST_MULTIPLIER)
        found = np.flatnonzero(violation > LEAST_VIOLATION)
        for vertex in found.tolist():
            self._pricing.add_row(vertex, *cuts[vertex].tolist())
        self._master.add_rows()
        self._converged = len(found) == 0
        return len(found) > 0


class Closing:
    """Bounds the incumbent of a run, and closes the gap; without an incumbent, it searches for any allocation.

    ``steps`` limits the rounds of the column generation and the slices of the search; None for no limit.
    """

    def __init__(self, problem: TopologyProblem, run: Run, steps: int | None) -> None:
        self._problem, self._run, encoding = problem, run, encode(problem)
        self._encoding = encoding
        self._steps: float = math.inf if steps is None else steps
        self._tree, self._scale = group_tree(encoding), encoding.scale
        self._hops = constant_hops(problem, encoding)
        self._tolerance = TOLERANCE * max(1.0, abs(self._hops))
        self._demand = Demand(*job_classes(problem, encoding, self._tree, leftover_is_job=True))
        self._pricing = Pricing(self._tree, self._demand)
        self._generation = _ColumnGeneration(self._pricing, run.clock, self._may_go_on)
        if not self._pricing.is_possible:
            run.prove_infeasible()
        elif run.solution is None:
            self._generation.allow_unplaced()
        else:
            self._generation.add_allocation(self._counts())

    @staticmethod
    def seconds_to_set_up(problem: TopologyProblem) -> float:
        """Return an estimate of the seconds until the first bound of a window."""
        levels, largest, n_jobs = len(problem.topology.hops), int(problem.sizes.max()), len(problem.jobs)
        return SETUP_S + len(problem.idle_nodes) * (NODE_S + PRODUCT_S * (levels * largest + 5 * n_jobs))

    def bound(self) -> None:
        """Generate columns, and record the bound."""
        self._generation.proceed()
        best = self._generation.best
        self._prove(best.bound, partial(self._priced, best))
        if self._run.solution is None and self._generation.best.bound < -self._tolerance:
            # Savings are never negative, so a negative bound proves that some job always stays without nodes.
            self._run.prove_infeasible()

    def strengthen(self, least_progress: float) -> None:
        """Add cuts as long as a round closes at least this share of the distance, and record the bound."""
        distance, before = self.distance(), math.inf
        while 0.0 < distance < (1.0 - least_progress) * before and self._generation.cut():
            before = distance
            self.bound()
            distance = self.distance()

    def distance(self) -> float:
        """Return the most that an allocation may save beyond the incumbent, in hops; 0 if that is only rounding."""
        saved = NO_SAVING
        if self._run.solution is not None:
            saved = float(self._pricing.savings_of(self._counts()).sum())
        distance = self._generation.best.bound - saved
        return distance if distance > self._tolerance else 0.0

    def close(self, most_states: int) -> bool:
        """Search the leaves within growing shares of the distance; return whether the optimum is proved.

        Each search has at most ``most_states`` states.
        """
        distance, demand, best = self.distance(), self._demand, self._generation.best
        if distance == 0.0:
            return self._settle(partial(self._priced, best))
        if self._run.clock.remaining() <= len(Order) * Layers.seconds_to_fill(self._tree, demand):
            return False
        search = LayeredSearch(len(demand.of_job), int(self._pricing.idle.max()), most_states)
        orders = [Layers.of(self._tree, demand, best.charge, order) for order in Order]
        for share in SHARES:
            # Subtract the tolerance from the last share, so that equally good allocations are not searched for.
            slack = share * distance - (self._tolerance if share == SHARES[-1] else 0.0)
            # All orders are tried with a growing limit of states.
            limit = min(FIRST_STATES, search.most_states)
            while True:
                outcomes = []
                for layers in orders:
                    # If the time is short, try fewer choices between two looks at the clock.
                    tried = int(max(LEAST_TRIED, min(1.0, self._run.clock.remaining() / LONG_S) * TRIED))
                    outcomes.append((search.run(layers, slack, self._may_go_on, limit, tried), layers))
                done = [(outcome, layers) for outcome, layers in outcomes if outcome.complete]
                if done or limit == search.most_states or self._run.clock.expired() or self._steps <= 0:
                    break
                limit = min(GROWTH * limit, search.most_states)
            if done:
                outcome, layers = min(done, key=lambda pair: pair[0].n_states)
            else:
                outcome, layers = min(outcomes, key=lambda pair: pair[0].most_left)
            self._prove(best.bound - slack + max(0.0, outcome.most_left), self._searched)
            if outcome.counts is not None:
                counts = outcome.counts[: len(self._problem.jobs)]
                jobs = np.append(np.arange(len(counts)), -1)
                owners = np.empty(len(self._problem.idle_nodes), dtype=np.int64)
                given = np.vstack((counts, self._pricing.idle - counts.sum(axis=0))).T
                owners[self._tree.leaf_positions] = np.repeat(np.tile(jobs, len(given)), given.ravel())
                self._run.offer(Allocation.of_owners(self._problem, owners))
                return self._settle(self._searched)
            if not outcome.complete:
                return False
            # Continue only with the order that completed the search.
            orders = [layers]
        return self._settle(self._searched)

    def _may_go_on(self) -> bool:
        """Count a step, and return whether steps and time are left."""
        self._steps -= 1
        return self._steps >= 0 and not self._run.clock.expired()

    def _prove(self, saving: float, certificate: Callable[[], Certificate[TopologyProblem]]) -> None:
        self._run.prove(self._scale * (self._hops - saving), certificate)

    def _priced(self, best: PricedPatterns) -> PartPrices:
        return group_prices(self._problem, self._encoding, best.charge)

    def _searched(self) -> Searched:
        # The run has just recorded the bound that this certificate proves.
        return Searched(float(self._run.bound or 0.0), self._priced(self._generation.best).classes)

    def _settle(self, certificate: Callable[[], Certificate[TopologyProblem]]) -> bool:
        if self._run.objective is None:
            self._run.prove_infeasible()
        else:
            self._run.prove(self._run.objective, certificate)
        return True

    def _counts(self) -> IntArray:
        """Return the nodes of every vertex that each job of the demand has in the incumbent, shape ``(J, V)``."""
        owners = self._run.solution.owners(self._problem)[self._tree.leaf_positions]
        leaves = np.repeat(np.arange(self._pricing.n_leaves), self._pricing.idle)
        counts = np.zeros((len(self._demand.of_job), self._pricing.n_leaves), dtype=np.int64)
        np.add.at(counts, (owners[owners >= 0], leaves[owners >= 0]), 1)
        if len(counts) > len(self._problem.jobs):
            counts[-1] = self._pricing.idle - counts.sum(axis=0)
        return self._pricing.counts_of_vertices(counts)


@dataclass(frozen=True, slots=True)
class ExactFree(TopologySolver):
    """Exact FREE: an allocation, a bound by column generation over job patterns, and a search that closes the gap.

    A budget's iterations are rounds of the column generation and, after them, slices of the search over the leaves.
    The search over the leaves stops after ``states`` states, of some 30 + 4 J bytes each.
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
        largest = max(int(problem.sizes.max()), problem.n_left if problem.fragmentation_weight > 0 else 0)
        work = len(problem.idle_nodes) * len(problem.topology.hops) * largest
        counts = len(problem.idle_nodes) * len(problem.jobs)
        if work <= LARGEST and counts <= MOST_COUNTS:
            return None
        return (
            f"idle nodes x levels x nodes of the largest job is {work:,} and idle nodes x jobs is {counts:,}, "
            f"at most {LARGEST:,} and {MOST_COUNTS:,} are supported"
        )

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        search = first_installed(SEARCHES, problem)
        if search is None:
            raise UsageError(f"solver 'exact' needs one of the solvers {', '.join(SEARCHES)}")
        return (*EXACT_KERNELS, *search.kernels(problem))

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        search, bounding_s = partial(improve, SEARCHES, problem, run, budget), Closing.seconds_to_set_up(problem)
        leaves_time = (1.0 - SEARCH_SHARE) * run.clock.remaining() >= bounding_s
        search(seed, *((SEARCH_SHARE, STEPS) if leaves_time else ALL_THAT_IS_LEFT))
        if run.solution is None and (allocation := Allocation.trivial(problem)) is not None:
            run.offer(allocation)
        if run.infeasible or run.interrupted or run.clock.remaining() < bounding_s:
            return StopReason.TIME_LIMIT
        closing = Closing(problem, run, budget.iterations)
        if not run.infeasible:
            closing.bound()
        if run.infeasible:
            return StopReason.PROVED
        if closing.distance() > 0.0 and run.clock.remaining() >= LEAST_SEARCH_S:
            search(seed + 1, SEARCH_SHARE, MORE_STEPS)
        is_closed: bool = run.interrupted
        for states in EFFORTS:
            if is_closed:
                break
            closing.strengthen(LEAST_PROGRESS)
            is_closed = closing.close(min(self.states, states))
        if not is_closed and run.clock.remaining() >= LEAST_SEARCH_S:
            search(seed + 2, *((SEARCH_SHARE, LAST_STEPS) if budget.seconds is None else ALL_THAT_IS_LEFT))
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        return StopReason.COMPLETED if budget.iterations is None else StopReason.ITERATIONS


def first_installed(names: Iterable[str], problem: TopologyProblem) -> Solver | None:
    """Return the first installed solver that takes a problem; None if there is none."""
    for name in names:
        with suppress(UsageError, MissingPackageError):
            if (solver := get_solver(name)).takes(problem):
                return solver
    return None


def improve(
    names: Iterable[str], problem: TopologyProblem, run: Run, budget: Budget, seed: int, share: float, steps: int
) -> None:
    """Search for a better allocation with the first installed solver, for a share of the time and at most ``steps``."""
    solver = first_installed(names, problem)
    if solver is None or run.clock.expired() or solver.refusal(problem) is not None:
        return
    most = min(steps, budget.iterations or MOST_ITERATIONS)
    ask(solver, problem, run.clock.grant(share, most), seed, problem, run)
