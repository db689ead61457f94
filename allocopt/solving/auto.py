"""Solver ``auto``: one name, a short list of solvers for each kind of problem."""

from typing import ClassVar

from allocopt.solving.by_kind import SolverByKind
from allocopt.solving.coallocation_portfolio import AutoCoallocation
from allocopt.solving.knapsack_portfolio import AutoKnapsack
from allocopt.solving.portfolio import Auto


class AutoByKind(SolverByKind):
    """Picks by kind, strategy and size: `Auto` for topology problems, `AutoKnapsack`, `AutoCoallocation`."""

    name: ClassVar[str] = "auto"
    makers = (Auto, AutoKnapsack, AutoCoallocation)
