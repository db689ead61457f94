"""Solvers ``scip``, ``highs`` and ``cp-sat``: one name, an integer program for each kind of problem."""

from typing import ClassVar

from allocopt.solving.by_kind import ExporterByKind
from formulations.coallocation.integer import CpSatCoallocation, HighsCoallocation, ScipCoallocation
from formulations.integer.solvers import CpSatPack, HighsPack, ScipPack
from formulations.knapsack.integer import CpSatKnapsack, HighsKnapsack, ScipKnapsack


class Scip(ExporterByKind):
    """Integer programs in SCIP: `ScipPack` for topology problems, `ScipKnapsack`, `ScipCoallocation`."""

    name: ClassVar[str] = "scip"
    makers = (ScipPack, ScipKnapsack, ScipCoallocation)


class Highs(ExporterByKind):
    """Integer programs in HiGHS: `HighsPack` for topology problems, `HighsKnapsack`, `HighsCoallocation`."""

    name: ClassVar[str] = "highs"
    makers = (HighsPack, HighsKnapsack, HighsCoallocation)


class CpSat(ExporterByKind):
    """Integer programs in CP-SAT: `CpSatPack` for topology problems, `CpSatKnapsack`, `CpSatCoallocation`."""

    name: ClassVar[str] = "cp-sat"
    makers = (CpSatPack, CpSatKnapsack, CpSatCoallocation)
