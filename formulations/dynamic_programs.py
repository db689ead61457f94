"""Solver ``dp``: one name, a dynamic program for each kind of problem."""

from typing import ClassVar

from allocopt.solving.by_kind import SolverByKind
from formulations.knapsack.dynamic import KnapsackDynamicProgram
from formulations.topology.dynamic_program import DynamicProgram


class DynamicPrograms(SolverByKind):
    """Dynamic programming: `DynamicProgram` for topology problems, `KnapsackDynamicProgram` for knapsacks."""

    name: ClassVar[str] = "dp"
    makers = (DynamicProgram, KnapsackDynamicProgram)
