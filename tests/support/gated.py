"""Solver ``gated``, a plug-in for sweeps: a test, and no clock, says when cells end."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from heuristics.topology.lns.solver import Lns

UNGATED = 2
"""So many seeds do not wait."""


@dataclass(frozen=True)
class Gated(Lns):
    """Solves as ``lns`` does once a file is there.

    Parameters
    ----------
    gate
        The file.
    """

    gate: str = ""
    name: ClassVar[str] = "gated"

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        while seed >= UNGATED and not Path(self.gate).exists():
            time.sleep(0.01)
        return super().search(problem, run, budget, seed)
