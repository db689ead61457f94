"""Solver ``greedy``: largest job first, each inserted exactly where it costs least."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from allocopt.arrays import Encoding, FloatArray
from allocopt.kernels.insertion import insert_jobs, insertion_state, single_job_savings
from allocopt.problems.topology.encoding import allocation_of_owners, encode
from allocopt.problems.topology.insertion import RULED_KERNELS, RuledInsertion
from allocopt.problems.topology.tables import TREE_KERNELS, group_tree
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget
from allocopt.topology import Allocation, Strategy, TopologyProblem, TopologySolver

# Idle nodes times levels times nodes of the largest job above which a single insertion may take a noticeable part of a
# second, and the number of jobs above which writing the answer down does.
LARGEST_INSERTION, MOST_JOBS = 50_000_000, 20_000
SLICE = 4_000_000  # idle nodes times nodes of the inserted jobs between two looks at the clock: some milliseconds
TRIES = 200  # orders of the jobs that are tried where rules leave no place for one of them

GREEDY_KERNELS = (*TREE_KERNELS, insertion_state, single_job_savings, insert_jobs)


class Greedy(TopologySolver):
    """Exact single-job insertion by a dynamic program over the tree, largest job first; O(m n) a job at most.

    If the time runs out, the jobs that are left take the first idle nodes. Its bound lets every job choose as if it
    were alone; where the jobs do not want the same nodes, that proves the greedy allocation optimal.
    """

    name: ClassVar[str] = "greedy"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.FREE}),
        frozenset({Promise.BOUND}),
        f"{LARGEST_INSERTION:,} idle nodes x levels x nodes of the largest job, {MOST_JOBS:,} jobs",
        side_constraints=True,
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        """Why the window is too large, or None."""
        work = len(problem.idle_nodes) * len(problem.topology.hops) * int(problem.sizes.max())
        if work <= LARGEST_INSERTION and len(problem.jobs) <= MOST_JOBS:
            return None
        return f"it has {len(problem.jobs):,} jobs, and {work:,} is the product; {self.capabilities.largest} are taken"

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the search may call."""
        return RULED_KERNELS if problem.has_side_constraints else GREEDY_KERNELS

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Insert the jobs, largest first; see `TopologySolver.search`."""
        if problem.has_side_constraints:
            return insert_by_rules(problem, run, budget, seed)
        allocation, complete = insert_largest_first(problem, run)
        run.offer(allocation)
        return StopReason.COMPLETED if complete else StopReason.TIME_LIMIT


def insert_by_rules(problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
    """Insert jobs with side constraints, in several orders if need be, and bound them; see `TopologySolver.search`."""
    insertion = RuledInsertion(problem)

    def may_go_on() -> bool:
        return not run.clock.expired()

    found = insertion.insert(insertion.largest_first(), may_go_on)
    if isinstance(found, Allocation):
        run.offer(found)
    bound = insertion.bound(may_go_on)
    if bound == np.inf:
        run.prove_infeasible()
        return StopReason.PROVED
    if bound is not None:
        run.prove(bound)
    if isinstance(found, int):
        again = insertion.search(found, budget.iterations or TRIES, may_go_on, np.random.default_rng(seed))
        if again is not None:
            run.offer(again)
    return StopReason.COMPLETED if may_go_on() else StopReason.TIME_LIMIT


def insert_largest_first(problem: TopologyProblem, run: Run) -> tuple[Allocation, bool]:
    """Insert jobs until the time runs out, and prove `alone_bound`; return the allocation, and if all were in time."""
    encoding = encode(problem)
    tree = group_tree(encoding)
    order = np.argsort(-problem.sizes, kind="stable")
    sizes = problem.sizes[order]
    state = insertion_state(tree, int(sizes[0]))
    run.prove(alone_bound(encoding, single_job_savings(tree, state, int(sizes[0]))))
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
    return allocation_of_owners(problem, np.append(order, -1)[placed]), inserted == len(sizes)


def alone_bound(encoding: Encoding, savings: FloatArray) -> float:
    """Return the sum of the jobs' least costs, each having all idle nodes for itself, by their `single_job_savings`."""
    n = encoding.sizes
    return float((encoding.scale * (encoding.top * n * n - encoding.bottom * n - savings[n]) / n).sum())
