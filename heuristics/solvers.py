"""Solver ``greedy``: one name, a rule for each kind of problem."""

from typing import ClassVar

from allocopt.solving.by_kind import SolverByKind
from heuristics.coallocation import GreedyCoallocation
from heuristics.knapsack import GreedyKnapsack
from heuristics.topology.greedy import Greedy


class GreedyByKind(SolverByKind):
    """The best choice one after the other: `Greedy` for topology problems, `GreedyKnapsack`, `GreedyCoallocation`."""

    name: ClassVar[str] = "greedy"
    makers = (Greedy, GreedyKnapsack, GreedyCoallocation)
