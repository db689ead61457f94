"""Solvers ``scip``, ``highs`` and ``cp-sat``: one name, an integer program for each kind of problem."""

from typing import ClassVar

from allocopt.solving.by_kind import ExporterByKind
from formulations.integer.solvers import CpSatPack, HighsPack, ScipPack
from formulations.knapsack.integer import CpSatKnapsack, HighsKnapsack, ScipKnapsack


class Scip(ExporterByKind):
    """Integer programs in SCIP: `ScipPack` for topology problems, `ScipKnapsack` for knapsacks."""

    name: ClassVar[str] = "scip"
    makers = (ScipPack, ScipKnapsack)


class Highs(ExporterByKind):
    """Integer programs in HiGHS: `HighsPack` for topology problems, `HighsKnapsack` for knapsacks."""

    name: ClassVar[str] = "highs"
    makers = (HighsPack, HighsKnapsack)


class CpSat(ExporterByKind):
    """Integer programs in CP-SAT: `CpSatPack` for topology problems, `CpSatKnapsack` for knapsacks."""

    name: ClassVar[str] = "cp-sat"
    makers = (CpSatPack, CpSatKnapsack)
