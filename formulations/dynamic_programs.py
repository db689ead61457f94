"""Solver ``dp``: one name, a dynamic program for each kind of problem."""

from typing import ClassVar

from allocopt.solving.by_kind import SolverByKind
from formulations.dynamic.solver import DynamicProgram
from formulations.knapsack.dynamic import KnapsackDynamicProgram


class DynamicPrograms(SolverByKind):
    """Dynamic programming: `DynamicProgram` for topology problems, `KnapsackDynamicProgram` for knapsacks."""

    name: ClassVar[str] = "dp"
    makers = (DynamicProgram, KnapsackDynamicProgram)
