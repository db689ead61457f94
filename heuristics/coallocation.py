"""Solvers ``greedy`` and ``static-50`` of co-allocation problems."""

from typing import ClassVar

from allocopt.coallocation import CoallocationSolver
from allocopt.problems.coallocation.certificates import HostPrices
from allocopt.problems.coallocation.pairs import MOST_TRIPLES, Pairs
from allocopt.problems.coallocation.problem import CoallocationProblem
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget

LARGEST = f"{MOST_TRIPLES:,} hosts x guests x quotas"
HALF = 50  # quota of every guest under ``static-50``, in percent (ASAX paper, section 4.4)


class GreedyCoallocation(CoallocationSolver):
    """Place guest after guest, each at its place of largest worth, in a few orders; O(G H (Q + K)) each."""

    name: ClassVar[str] = "greedy"
    capabilities: ClassVar[Capabilities] = Capabilities(frozenset(), frozenset({Promise.BOUND}), LARGEST)

    def search(self, problem: CoallocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        pairs = Pairs.of(problem)
        return self.begin(problem, run, pairs.bound(), HostPrices(), pairs.greedy(run.clock.expired))


class StaticHalf(CoallocationSolver):
    """Give each guest half of the first host where this breaks no rule, regardless of the worth: *Static* of ASAX."""

    name: ClassVar[str] = "static-50"
    capabilities: ClassVar[Capabilities] = Capabilities(frozenset(), frozenset(), LARGEST)

    def refusal(self, problem: CoallocationProblem) -> str | None:
        if HALF not in problem.percents:
            return f"it has no quota of {HALF / 100}"
        return super().refusal(problem)

    def search(self, problem: CoallocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        run.offer(Pairs.of(problem).first_fit(HALF))
        return StopReason.COMPLETED
