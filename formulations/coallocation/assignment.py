"""Solver ``assignment`` of co-allocation problems with one guest a host.

Each pair at its best quota, nothing is left to decide but who goes where: a linear assignment problem, which is solved
to proof in polynomial time (Crouse, "On implementing 2D rectangular assignment algorithms", 2016).
"""

from typing import ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from allocopt.coallocation import CoallocationSolver
from allocopt.problems.coallocation.pairs import MOST_TRIPLES, Pairs, alone_bound
from allocopt.problems.coallocation.problem import Coallocation, CoallocationProblem, GuestPlace
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run


class Assignment(CoallocationSolver):
    """The best assignment of guests to hosts; O(G^2 H)."""

    name: ClassVar[str] = "assignment"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(),
        frozenset({Promise.EXACT, Promise.BOUND}),
        f"{MOST_TRIPLES:,} hosts x guests x quotas, one guest a host",
    )

    def refusal(self, problem: CoallocationProblem) -> str | None:
        """Why the problem is not for this solver: its size, or several guests on a host."""
        if problem.max_guests > 1:
            return f"it lets {problem.max_guests} guests share a host, an assignment has one"
        return super().refusal(problem)

    def search(self, problem: CoallocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Solve the assignment; see `SearchSolver.search`."""
        pairs = Pairs.of(problem)
        run.prove(alone_bound(pairs.values))
        run.offer(Coallocation())
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        solution = best_assignment(problem, pairs)
        run.offer(solution)
        run.prove(problem.objective(solution))
        return StopReason.PROVED


def assignment_bound(problem: CoallocationProblem, pairs: Pairs) -> float:
    """Upper bound with several guests on a host: hosts as many times as they take guests, each guest as if alone.

    See `allocopt.problems.coallocation.pairs.alone_bound` for why it holds.
    """
    worth = np.repeat(np.maximum(0.0, pairs.best()), problem.max_guests, axis=0)
    return float(worth[linear_sum_assignment(worth, maximize=True)].sum())


def best_assignment(problem: CoallocationProblem, pairs: Pairs) -> Coallocation:
    """Return the best solution in which every host has at most one guest."""
    worth, quota = np.maximum(0.0, pairs.best()), pairs.best_quota()
    hosts, guests = linear_sum_assignment(worth, maximize=True)
    return Coallocation(
        tuple(
            GuestPlace(guest, host, int(problem.percents[quota[host, guest]]))
            for host, guest in zip(hosts.tolist(), guests.tolist(), strict=True)
            if worth[host, guest] > 0
        )
    )
