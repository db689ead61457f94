"""Solver ``greedy``: largest job first, each inserted exactly where it costs least."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import Encoding, FloatArray
from allocopt.kernels.insertion import (
    fill_ruled_tables,
    insert_jobs,
    insert_ruled_job,
    insertion_state,
    place_job,
    single_job_savings,
)
from allocopt.problems.topology.certificates import PartPrices
from allocopt.problems.topology.tables import TREE_KERNELS, constant_hops, encode, group_tree, job_classes
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget
from allocopt.topology import Allocation, Strategy, TopologyProblem, TopologySolver

# Most idle nodes times levels times nodes of the largest job, and most jobs. Above, a single insertion, or writing the
# answer, may take a noticeable part of a second.
LARGEST_INSERTION, MOST_JOBS = 50_000_000, 20_000
SLICE = 4_000_000  # idle nodes times nodes of the inserted jobs between two looks at the clock: some milliseconds
TRIES = 200  # most orders of the jobs that are tried if rules leave no place for one of them
PRICE = 1.0  # standard deviation of random leaf prices, in hops per node
TIE_BREAK = 1e-6  # factor of the usual tie break, which assumes integer savings; with rules, they may be fractions
GREEDY_KERNELS = (*TREE_KERNELS, insertion_state, single_job_savings, insert_jobs)
RULED_KERNELS = (*TREE_KERNELS, insertion_state, fill_ruled_tables, insert_ruled_job, place_job)


class Greedy(TopologySolver):
    """Insert each job exactly by a dynamic program over the tree, largest first; O(m n) per job at most.

    If the time runs out, the remaining jobs take the first idle nodes. For the bound, every job chooses among all idle
    nodes; if no two jobs choose the same node, this proves the greedy allocation optimal.
    """

    name: ClassVar[str] = "greedy"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}),
        frozenset({Promise.BOUND}),
        f"{LARGEST_INSERTION:,} idle nodes x levels x nodes of the largest job, {MOST_JOBS:,} jobs",
        side_constraints=True,
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        work = len(problem.idle_nodes) * len(problem.topology.hops) * int(problem.sizes.max())
        if work <= LARGEST_INSERTION and len(problem.jobs) <= MOST_JOBS:
            return None
        return (
            f"it has {len(problem.jobs):,} jobs, idle nodes x levels x nodes of the largest job is {work:,}; "
            f"supported are {self.capabilities.largest}"
        )

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        return RULED_KERNELS if problem.has_side_constraints else GREEDY_KERNELS

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        if problem.has_side_constraints:
            return insert_by_rules(problem, run, budget, seed)
        allocation, complete = insert_largest_first(problem, run)
        run.offer(allocation)
        return StopReason.COMPLETED if complete else StopReason.TIME_LIMIT


class RuledInsertion:
    """Inserts the jobs of a window with side constraints in any order."""

    def __init__(self, problem: TopologyProblem) -> None:
        self._problem = problem
        self._encoding = encode(problem)
        self._tree = group_tree(self._encoding)
        self._classes, self._of_job = job_classes(problem, self._encoding, self._tree)
        self._largest = int(problem.sizes.max())
        # Jobs by decreasing size, jobs of a class side by side.
        self.largest_first: list[int] = np.lexsort((self._of_job, -problem.sizes)).tolist()

    def insert(
        self, order: Sequence[int], may_go_on: Callable[[], bool], prices: FloatArray | None = None
    ) -> Allocation | int | None:
        """Insert the jobs in an order, each where it costs least; ``prices`` of nodes by leaf, in hops, are added.

        Returns the allocation, the first job that does not find nodes, or None if it had to stop.
        """
        state = insertion_state(self._tree, self._largest)
        state = state._replace(tie_break=TIE_BREAK * state.tie_break)
        owners = np.full(len(self._problem.idle_nodes), -1, dtype=np.int64)
        last = -1
        for job in order:
            if not may_go_on():
                return None
            r = int(self._of_job[job])
            # `insert_ruled_job` keeps the tables of its class up to date; another class needs its own.
            if r != last:
                size = int(self._classes.sizes[r])
                if prices is not None:
                    state.price[:] = size * prices
                fill_ruled_tables(self._tree, state, self._classes, r, size)
                last = r
            if not insert_ruled_job(self._tree, state, self._classes, r, owners, job):
                return job
        return Allocation.of_owners(self._problem, owners)

    def search(
        self, failed: int, tries: int, may_go_on: Callable[[], bool], rng: np.random.Generator
    ) -> Allocation | None:
        """Return any allocation, None if none is found; a job without nodes comes first in the next attempt.

        ``failed`` is the job that has found no nodes before.
        """
        order, n_leaves = self.largest_first, len(self._tree.leaf_first) - 1
        for attempt in range(tries):
            # Moving failed jobs to the front can repeat the same orders, so shuffle now and then.
            if attempt % 16 == 15:
                order = [int(job) for job in rng.permutation(order)]
            order = [failed, *(job for job in order if job != failed)]
            # In every second attempt, leaves have random prices.
            prices = PRICE * rng.standard_normal(n_leaves) if attempt % 2 else None
            found = self.insert(order, may_go_on, prices)
            if not isinstance(found, int):
                return found
            failed = found
        return None

    def bound(self, may_go_on: Callable[[], bool]) -> float | None:
        """Return the sum of the jobs' least costs on all idle nodes; infinity if one has no place; None if stopped."""
        classes = self._classes._replace(leftover=0.0)
        state = insertion_state(self._tree, self._largest)._replace(tie_break=0.0)
        saved = np.zeros(len(classes.sizes))
        for r, size in enumerate(classes.sizes.tolist()):
            if not may_go_on():
                return None
            fill_ruled_tables(self._tree, state, classes, r, size)
            if not place_job(self._tree, state, size):
                return np.inf
            saved[r] = float(state.take.astype(np.float64) ** 2 @ self._tree.weight) / size
            saved[r] += classes.bonus[r, classes.level[state.take == size]].sum()
        most_left = 0.0
        for groups, weight in zip(self._encoding.groups, self._encoding.weights.tolist(), strict=True):
            # The leftover saves most if it fills the largest groups of each level.
            falling = np.sort(np.bincount(groups))[::-1]
            taken = np.diff(np.minimum(np.append(0, np.cumsum(falling)), self._problem.n_left)).astype(np.float64)
            most_left += weight * float((taken * taken).sum())
        saving = float(saved[self._of_job].sum()) + self._classes.leftover * most_left
        hops = constant_hops(self._problem, self._encoding)
        # The tolerance is far more than rounding can add to sums of fractions.
        return self._encoding.scale * (hops - saving - 1e-9 * max(1.0, abs(hops)))


def insert_by_rules(problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
    """Insert jobs with side constraints, in several orders if needed, and prove a bound; see `TopologySolver`."""
    insertion = RuledInsertion(problem)

    def may_go_on() -> bool:
        return not run.clock.expired()

    found = insertion.insert(insertion.largest_first, may_go_on)
    if isinstance(found, Allocation):
        run.offer(found)
    bound = insertion.bound(may_go_on)
    if bound == np.inf:
        run.prove_infeasible()
        return StopReason.PROVED
    if bound is not None:
        run.prove(bound, PartPrices())
    if isinstance(found, int):
        again = insertion.search(found, budget.iterations or TRIES, may_go_on, np.random.default_rng(seed))
        if again is not None:
            run.offer(again)
    return StopReason.COMPLETED if may_go_on() else StopReason.TIME_LIMIT


def insert_largest_first(problem: TopologyProblem, run: Run) -> tuple[Allocation, bool]:
    """Insert jobs until the time is over, and prove `alone_bound`; return the allocation, and if all were inserted."""
    encoding = encode(problem)
    tree = group_tree(encoding)
    order = np.argsort(-problem.sizes, kind="stable")
    sizes = problem.sizes[order]
    state = insertion_state(tree, int(sizes[0]))
    run.prove(alone_bound(encoding, single_job_savings(tree, state, int(sizes[0]))), PartPrices())
    placed = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    per_slice = max(1, SLICE // (len(placed) * int(sizes[0])))
    inserted = 0
    while inserted < len(sizes) and not run.clock.expired():
        last = min(len(sizes), inserted + per_slice)
        insert_jobs(tree, state, sizes, inserted, last, placed)
        inserted = last
    idle = np.flatnonzero(placed < 0)
    left = np.repeat(np.arange(inserted, len(sizes)), sizes[inserted:])
    placed[idle[: len(left)]] = left
    return Allocation.of_owners(problem, np.append(order, -1)[placed]), inserted == len(sizes)


def alone_bound(encoding: Encoding, savings: FloatArray) -> float:
    """Return the sum of the jobs' least costs on all idle nodes, given their `single_job_savings`."""
    n = encoding.sizes
    return float((encoding.scale * (encoding.top * n * n - encoding.bottom * n - savings[n]) / n).sum())
