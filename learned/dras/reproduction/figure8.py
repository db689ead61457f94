"""Figure 8: waits by size of job on Theta. The paper prints pictures; of its text are the longest waits."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.simulator.schedule import job_times
from allocopt.simulator.simulate import simulate
from learned.dras.reproduction.measures import box_of
from learned.dras.reproduction.methods import PAPER_METHODS, Trained, present, schedulers
from learned.dras.reproduction.modes import box_rows
from learned.dras.reproduction.published import LONGEST_WAIT_H
from learned.dras.reproduction.sites import JOBSETS, THETA, jobsets_of

ALL_SIZES = "all sizes"


@dataclass(frozen=True, slots=True)
class FigureEightReproduction:
    """Figure 8 of the DRAS paper.

    Parameters
    ----------
    trained
        Folder with trainings, whose weights (those of the first training of each agent) are taken in place of the
        shipped ones.
    """

    trained: str = ""

    name: ClassVar[str] = "dras-figure8"
    title: ClassVar[str] = "Figure 8 of the DRAS paper: waits by size of job, on Theta"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return jobsets and methods."""
        return [
            f"{kind}: {method}" for kind in JOBSETS for method in present(PAPER_METHODS, THETA, Trained(self.trained))
        ]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Return the boxes of waits by size, all jobsets together."""
        kind, method = piece.split(": ")
        scheduler = schedulers(method, THETA, request.seeds, Trained(self.trained))[0]
        schedules = [simulate(jobs, THETA.processors, scheduler) for jobs in jobsets_of(THETA, kind, request)]
        wait_s = np.concatenate([job_times(schedule).wait_s for schedule in schedules])
        size = np.concatenate([schedule.workload.processors for schedule in schedules])
        edges = (*THETA.classes, THETA.processors + 1)
        boxes = {
            f"{fewest} to {end - 1} nodes": box_of(wait_s[(size >= fewest) & (size < end)])
            for fewest, end in pairwise(edges)
        }
        return {ALL_SIZES: box_of(wait_s), **boxes}

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the boxes."""
        return [
            row
            for piece, record in records.items()
            for size, box in record.items()
            for row in box_rows(self.name, f"{piece}, {size}", box, _longest(piece, size))
        ]


def _longest(piece: str, size: str) -> float | None:
    """Return the longest wait that the paper's text names."""
    return LONGEST_WAIT_H.get(piece.split(": ")[1]) if size == ALL_SIZES else None
