"""Solvers ``scip``, ``highs``, ``cp-sat`` and ``scip-paper``: SCAS to proof by integer programming."""

from dataclasses import dataclass
from typing import ClassVar

from allocopt.problems.blocks import Blocks
from allocopt.problems.topology import TopologyProblem
from formulations.integer.base import BackEndSpec, ProgramSolver
from formulations.integer.pack import Pack, pack_nonzeros
from formulations.integer.paper import Paper, paper_nonzeros

SCIP = BackEndSpec("scip", "pyscipopt", "PySCIPOpt")
HIGHS = BackEndSpec("highs", "scipy", "SciPy")
CP_SAT = BackEndSpec("cp_sat", "ortools", "OR-Tools")


@dataclass(frozen=True)
class PackSolver(ProgramSolver):
    """A solver of the Pack model."""

    def formulate(self, problem: TopologyProblem, blocks: Blocks) -> Pack:
        """Write the problem as the Pack model."""
        return Pack(problem, blocks)

    def nonzeros(self, problem: TopologyProblem) -> int:
        """Nonzeros of the Pack model."""
        return pack_nonzeros(problem)


@dataclass(frozen=True)
class ScipPack(PackSolver):
    """The Pack model in SCIP."""

    name: ClassVar[str] = "scip"
    back_end: ClassVar[BackEndSpec] = SCIP
    largest_nonzeros: ClassVar[int] = 1_000_000


@dataclass(frozen=True)
class HighsPack(PackSolver):
    """The Pack model in HiGHS: the linear relaxation first, then the columns that it leaves."""

    name: ClassVar[str] = "highs"
    back_end: ClassVar[BackEndSpec] = HIGHS
    largest_nonzeros: ClassVar[int] = 3_000_000


@dataclass(frozen=True)
class CpSatPack(PackSolver):
    """The Pack model in CP-SAT, on integer costs."""

    name: ClassVar[str] = "cp-sat"
    back_end: ClassVar[BackEndSpec] = CP_SAT
    largest_nonzeros: ClassVar[int] = 1_000_000


@dataclass(frozen=True)
class ScipPaper(ProgramSolver):
    """The NSA paper's model M_SCAS in SCIP, to reproduce its Table IV.

    Parameters
    ----------
    cancel
        Whether SCIP may cancel jobs at a penalty, as in the authors' program (``cancel_j`` of `Paper`). A solution
        with cancelled jobs is no allocation and never becomes the incumbent: the answer is then the best complete
        allocation, at worst the sequential one, with its status, and the log of `formulations.integer.paper` says at
        level INFO, for every such solution that SCIP shows, how many jobs it cancels. The last of these messages is
        what the paper's column "Cancel" counts.
    """

    name: ClassVar[str] = "scip-paper"
    back_end: ClassVar[BackEndSpec] = SCIP
    largest_nonzeros: ClassVar[int] = 500_000

    cancel: bool = False

    def formulate(self, problem: TopologyProblem, blocks: Blocks) -> Paper:
        """Write the problem as the paper's model."""
        return Paper(problem, blocks, self.cancel)

    def nonzeros(self, problem: TopologyProblem) -> int:
        """Nonzeros of the paper's model."""
        return paper_nonzeros(problem)
