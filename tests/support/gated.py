"""Plug-ins for crash trials: a test, and no clock, says when their work ends."""

import os
import time
from pathlib import Path
from typing import Any, ClassVar

from allocopt.heuristics.topology.lns.solver import Lns
from allocopt.problems.topology import TopologyProblem
from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.solving.budget import Budget
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run

UNGATED, CELLS = 2, 8  # So many do not wait, of so many


def pass_gate(number: int) -> None:
    """Wait until the gate lets work of a number pass, and note that it has passed."""
    folder = Path(os.environ["ALLOCOPT_TEST_GATE"])
    while number >= int((folder / "open").read_text(encoding="utf-8")):
        time.sleep(0.01)
    with (folder / "passed").open("a", encoding="utf-8") as file:
        file.write(f"{number}\n")


class _Gated(Lns):
    """Solves as ``lns`` does, once the gate is open for its number."""

    number: ClassVar[int]

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        # A solver is warmed up on a shipped instance.
        if not problem.name.startswith("tiny"):
            pass_gate(self.number)
        return super().search(problem, run, budget, seed)


for _number in range(CELLS):
    globals()[f"Gated{_number}"] = type(f"Gated{_number}", (_Gated,), {"name": f"gated{_number}", "number": _number})


class GatedTable:
    """A table of as many pieces."""

    name = "gated"
    title = "Gated"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        return [str(number) for number in range(CELLS)]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        pass_gate(int(piece))
        return {"value": int(piece) ** 2}

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        return [ReproductionRow("gated", piece, "n", None, held["value"], None, 1) for piece, held in records.items()]
