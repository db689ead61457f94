"""Figures 7 and 8: makespan and energy of five batches of NPB jobs, with and without the multicore architecture.

The paper prints pictures; of its text are how far the baseline is from the real cluster, and powers. It says neither
how many jobs the batches have nor the policy; here jobs start in the order of their submission.
"""

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar

import numpy as np

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate
from allocopt.traces.npb import npb_batch
from learned.irmasim.scenario import HETEROGENEOUS, HOMOGENEOUS, PAPERS

SIZES = (100, 200, 300, 400, 500)
"""Jobs of the batches."""
QUICK_SIZES = SIZES[:2]
POLICY = "first-high_gflops"
BELOW = "baseline below contention"
MEASURES = ("makespan s", "energy kJ", "mean power W")


@dataclass(frozen=True, slots=True)
class _Batches:
    """Batches of growing size on one of the paper's clusters."""

    cluster: ClassVar[str]
    name: ClassVar[str]
    published_below: ClassVar[dict[str, float]]
    """By how much per cent the paper's baseline is below the real cluster."""
    published_power: ClassVar[dict[str, float]]
    """Power in watts, by model."""

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return sizes and models."""
        sizes = QUICK_SIZES if request.is_quick else SIZES
        return [f"{size} jobs: {kind}" for size in sizes for kind in ExecutionKind]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Simulate a batch for every seed."""
        size, kind = piece.split(" jobs: ")
        execution = Execution(ExecutionKind(kind))
        found: dict[str, list[float]] = {name: [] for name in MEASURES}
        for seed in request.seeds:
            jobs = npb_batch(int(size), np.random.default_rng((seed, int(size))))
            made = simulate(jobs, PAPERS[self.cluster], POLICY, execution=execution)
            values = (made.makespan_s, made.energy_j / 1e3, made.energy_j / made.makespan_s)
            for name, value in zip(MEASURES, values, strict=True):
                found[name].append(float(value))
        return found

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the measures of all batches, and by how much the baseline is below."""
        rows = []
        for piece, record in records.items():
            power = self.published_power.get(piece.split(": ")[1])
            for column in MEASURES:
                rows.append(self._row(piece, column, power if column == MEASURES[-1] else None, record[column]))
        for piece, record in records.items():
            size, kind = piece.split(": ")
            other = f"{size}: {ExecutionKind.CONTENTION}"
            if kind != ExecutionKind.BASELINE or other not in records:
                continue
            for column, published in self.published_below.items():
                pairs = zip(record[column], records[other][column], strict=True)
                below = [100 * (1 - one / reference) for one, reference in pairs]
                rows.append(self._row(f"{size}: {BELOW}", f"{column.split()[0]} %", published, below))
        return rows

    def _row(self, row: str, column: str, published: float | None, values: list[float]) -> ReproductionRow:
        """Return the mean of values over the seeds."""
        spread = stdev(values) if len(values) > 1 else None
        return ReproductionRow(self.name, row, column, published, fmean(values), spread, len(values))


@dataclass(frozen=True, slots=True)
class FigureSevenReproduction(_Batches):
    """Figure 7 of the IRMaSim paper."""

    cluster: ClassVar[str] = HOMOGENEOUS
    name: ClassVar[str] = "irmasim-figure7"
    title: ClassVar[str] = "Figure 7 of the IRMaSim paper: makespan and energy on the homogeneous cluster"
    published_below: ClassVar[dict[str, float]] = {"makespan s": 37.0, "energy kJ": 47.0}
    published_power: ClassVar[dict[str, float]] = {ExecutionKind.CONTENTION: 440.0, ExecutionKind.BASELINE: 320.0}


@dataclass(frozen=True, slots=True)
class FigureEightReproduction(_Batches):
    """Figure 8 of the IRMaSim paper."""

    cluster: ClassVar[str] = HETEROGENEOUS
    name: ClassVar[str] = "irmasim-figure8"
    title: ClassVar[str] = "Figure 8 of the IRMaSim paper: makespan and energy on the heterogeneous cluster"
    published_below: ClassVar[dict[str, float]] = {"makespan s": 30.0, "energy kJ": 45.0}
    published_power: ClassVar[dict[str, float]] = {}
