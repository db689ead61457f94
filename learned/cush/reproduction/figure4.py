"""Figure 4: how CuSH gets better while it learns."""

import csv
from dataclasses import dataclass
from typing import Any, ClassVar

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from learned.cush.reproduction.outcomes import (
    BASELINES,
    of_baseline,
)
from learned.cush.reproduction.published import CUSH, TABLE_ONE
from learned.cush.reproduction.trained import (
    Curve,
    epochs_of,
    points_of,
    train_now,
    usual_trainings,
)
from learned.cush.training import USUAL_EPOCHS, CushTraining

FOUR = "cush-figure4"
VALIDATED = ("score", "validated_turnaround", "validated_wait", "validated_rewards")
SHOWN = {"score": "NTAT", "validated_turnaround": "TAT", "validated_wait": "wait", "validated_rewards": "rewards"}
"""Columns of Figure 4 by what a training measures."""


def curve_for(folder: str, seed: int, request: ReproductionRequest) -> Curve:
    """Return the curve of a usual training for Sierra: the first in a folder, or that of a training made now."""
    paths = usual_trainings(folder, "sierra")
    if paths:
        with (paths[0] / "curve.csv").open(encoding="utf-8") as file:
            return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return train_now(CushTraining(epochs=epochs_of(request, USUAL_EPOCHS)), seed)[1]


@dataclass(frozen=True, slots=True)
class FigureFourReproduction:
    """Figure 4 of the CuSH paper.

    Parameters
    ----------
    trained
        Folder with trainings; the curve is that of the first one for Sierra.
    """

    trained: str = ""

    name: ClassVar[str] = FOUR
    title: ClassVar[str] = "Figure 4 of the CuSH paper: turnaround, wait and rewards while CuSH learns, on Sierra"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the baselines' lines and CuSH's curve."""
        return [*BASELINES, *(f"seed {seed}" for seed in request.seeds)]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Schedule the job sets that validate by a baseline, or train."""
        if not piece.startswith("seed "):
            training = CushTraining()
            sets = of_baseline(training.validation_sets(), training.cluster(), piece).sets
            metrics = ("normalized_turnaround", "turnaround", "wait", "rewards")
            return {name: [float(sets[metric].mean())] for name, metric in zip(VALIDATED, metrics, strict=True)}
        return points_of(curve_for(self.trained, int(piece.split()[1]), request), VALIDATED)

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the baselines, points of the curves, and where these end."""
        rows = []
        for piece, record in records.items():
            epochs = record.get("epoch", [None])
            for name in VALIDATED:
                for epoch, value in zip(epochs, record[name], strict=True):
                    at = SHOWN[name] if epoch is None else f"{SHOWN[name]} after epoch {epoch:.0f}"
                    last = epoch is not None and epoch == epochs[-1]
                    published = _printed(piece if epoch is None else CUSH, name) if epoch is None or last else None
                    rows.append(ReproductionRow(FOUR, piece, at, published, value, None, CushTraining().validation))
        return rows


def _printed(method: str, name: str) -> float | None:
    """Return what Table 1 prints of a method, where that is what was measured."""
    printed = TABLE_ONE["sierra"][method]
    known = {"score": printed.turnaround, "validated_wait": printed.wait, "validated_rewards": printed.rewards}
    return known.get(name)
