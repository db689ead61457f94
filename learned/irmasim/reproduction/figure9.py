"""Figure 9: energy of each policy on the heterogeneous cluster. The paper prints a picture, of a subset unnamed."""

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID_NAME
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate
from learned.irmasim.scenario import HETEROGENEOUS, PAPERS, SUBSET, jobsets_of

JOBS = 100
FIRST_BATCH = 100
"""Seed that draws the batch of the first seed: the one on which agents are trained."""
ENERGY, RATIO = "energy kJ", "energy over the least, %"
WORST, WORST_OF_SUBSET = "worst of all above the least, %", "worst of the subset above its least, %"


@dataclass(frozen=True, slots=True)
class FigureNineReproduction:
    """Figure 9 of the IRMaSim paper: all 36 policies, or, quick, the subset among which agents choose."""

    name: ClassVar[str] = "irmasim-figure9"
    title: ClassVar[str] = "Figure 9 of the IRMaSim paper: energy by policy on the heterogeneous cluster"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return batches and models."""
        return [f"seed {seed}: {kind}" for seed in request.seeds for kind in ExecutionKind]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Simulate a batch under every policy."""
        seed, kind = piece.removeprefix("seed ").split(": ")
        jobs = jobsets_of("", JOBS, FIRST_BATCH + int(seed))[0]
        machine, execution = PAPERS[HETEROGENEOUS], Execution(ExecutionKind(kind))
        names = SUBSET if request.is_quick else [name for name in ACTION_NAMES if name != VOID_NAME]
        return {
            name: simulate(jobs, machine, name, seed=int(seed), execution=execution).energy_j / 1e3 for name in names
        }

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return energies by policy, and how far the policies are apart."""
        rows = []
        for kind in ExecutionKind:
            of = [dict(record) for piece, record in records.items() if piece.endswith(f": {kind}")]
            least = [min(record.values()) for record in of]
            for name in of[0]:
                energies = [record[name] for record in of]
                above = [100 * (one / low - 1) for one, low in zip(energies, least, strict=True)]
                rows += [self._row(f"{kind}: {name}", ENERGY, energies), self._row(f"{kind}: {name}", RATIO, above)]
            worst = [_worst(list(record.values())) for record in of]
            subset = [_worst([record[name] for name in SUBSET]) for record in of]
            rows += [self._row(f"{kind}", WORST, worst), self._row(f"{kind}", WORST_OF_SUBSET, subset)]
        return rows

    def _row(self, row: str, column: str, values: list[float]) -> ReproductionRow:
        """Return the mean of values over the batches."""
        spread = stdev(values) if len(values) > 1 else None
        return ReproductionRow(self.name, row, column, None, fmean(values), spread, len(values))


def _worst(energies: list[float]) -> float:
    """By how much per cent the greatest is above the least."""
    return 100 * (max(energies) / min(energies) - 1)
