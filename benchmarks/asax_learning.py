"""How far a learner is from the exact model while it sees one queue of the ASAX paper after the other."""

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.quota.window import CoallocationScheduler
from allocopt.traces.applications import CLUSTER_SIZES
from learned.asax.agent import Loss
from learned.asax.reproduction.runs import LESSONS, learner, queue_of, simulated

FIRST_SEED = 30_000
LOSSES = {"limit": (Loss.LIMIT, 0.0), "degradation": (Loss.DEGRADATION, 0.0), "limit, idle counted": (Loss.LIMIT, 1.0)}
PARTS = {"queue 1": slice(0, 1), "queues 1 .. 7": slice(0, 7), "8 .. 14": slice(7, 14), "15 .. 20": slice(14, LESSONS)}
LAST = PARTS["15 .. 20"]


def response_s(cores: int, seed: int, scheduler: QuotaScheduler) -> float:
    """Return the mean response of the queue of a seed."""
    return float(simulated(queue_of(seed, cores), cores, scheduler, seed).response_s.mean())


def learning(sequences: int) -> str:
    """Return the table: a line for each cluster and loss."""
    lines: list[list[Cell]] = []
    for cores in CLUSTER_SIZES:
        seeds = np.arange(FIRST_SEED, FIRST_SEED + sequences * LESSONS).reshape(sequences, LESSONS)
        exact = responses(cores, seeds, [[CoallocationScheduler("assignment")] * LESSONS] * sequences)
        for name, loss in LOSSES.items():
            going_on = [[learner(*loss)] * LESSONS for _ in range(sequences)]
            gaps = 100 * (responses(cores, seeds, going_on) / exact - 1)
            new = [[learner(*loss) for _ in range(LESSONS)] for _ in range(sequences)]
            fresh = 100 * (responses(cores, seeds[:, LAST], new) / exact[:, LAST] - 1)
            parts = [*(gaps[:, part] for part in PARTS.values()), fresh]
            lines.append([cores, name, *(f"{part.mean():.1f} ± {part.std() / part.size**0.5:.1f}" for part in parts)])
    header = ("cores", "loss", *PARTS, "the last ones, knowing nothing")
    return aligned_table(header, lines, (None,) * len(header))


def responses(cores: int, seeds: FloatArray, schedulers: list[list[QuotaScheduler]]) -> FloatArray:
    """Return the mean responses of queues, each under its scheduler; a scheduler that comes again goes on learning."""
    return np.array(
        [
            [response_s(cores, int(seed), scheduler) for seed, scheduler in zip(row, column, strict=False)]
            for row, column in zip(seeds, schedulers, strict=True)
        ]
    )
