"""Solver ``auto`` of co-allocation problems: the first exact solver that takes the problem, or greedy placements."""

from typing import ClassVar

from allocopt.problems.coallocation.pairs import MOST_TRIPLES
from allocopt.problems.coallocation.problem import CoallocationProblem
from allocopt.solving.base import CoallocationSolver
from allocopt.solving.first_that_takes import FirstThatTakes
from allocopt.solving.protocol import Capabilities, Promise


class AutoCoallocation(FirstThatTakes[CoallocationProblem], CoallocationSolver):
    """An assignment where a host takes one guest, integer programming otherwise."""

    name: ClassVar[str] = "auto"
    order: ClassVar[tuple[str, ...]] = ("assignment", "cp-sat", "scip", "highs", "greedy")
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(),
        frozenset({Promise.ANYTIME, Promise.BOUND}),
        f"{MOST_TRIPLES:,} hosts x guests x quotas",
        kinds=frozenset({"coallocation"}),
    )
