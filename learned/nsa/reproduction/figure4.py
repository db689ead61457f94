"""Figure 4: learning curves of the six networks. The paper prints curves without numbers, and their order in words."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.reproduction import Records, ReproductionRequest, ReproductionRow
from allocopt.training import TrainingRequest
from learned.nsa.networks import NETWORKS
from learned.nsa.training import NsaTraining

NAME = "nsa-figure4"
UPDATES, QUICK_UPDATES = 400, 6
QUICK_EPOCHS = 2
POINTS = 10
"""Points of a curve that are rows, each a mean over the updates since the one before."""


class FigureFourReproduction:
    """Figure 4 of the NSA paper."""

    name = NAME
    title = "Figure 4 of the NSA paper: learning curves of the six networks"

    def pieces(self, request: ReproductionRequest) -> list[str]:
        """Return the networks for all seeds."""
        return [f"seed {seed}, {network}" for seed in request.seeds for network in NETWORKS]

    def measure(self, request: ReproductionRequest, piece: str) -> dict[str, Any]:
        """Train a network with few updates; its full curve is written by ``allocopt train nsa``."""
        seed, network = int(piece.split(",")[0].split()[-1]), piece.split(", ")[1]
        quick, full = NsaTraining(network, QUICK_UPDATES, window_epochs=QUICK_EPOCHS), NsaTraining(network, UPDATES)
        with tempfile.TemporaryDirectory() as folder:
            asked = TrainingRequest(Path(folder), seed, None, False, f"allocopt reproduce {NAME}")
            progress = list((quick if request.is_quick else full).train(asked))
        return {
            "returns": [point.measures["mean_return"] for point in progress],
            "samples": [point.measures["samples"] for point in progress],
        }

    def rows(self, request: ReproductionRequest, records: Records) -> list[ReproductionRow]:
        """Return the curves, and which network ends how high."""
        return [row for piece, record in records.items() for row in _curve(piece, record)]


def _curve(piece: str, record: Mapping[str, Any]) -> list[ReproductionRow]:
    """Return the points of a curve."""
    returns, samples = np.array(record["returns"]), np.array(record["samples"])
    rows = []
    for part in np.array_split(np.arange(len(returns)), min(POINTS, len(returns))):
        column = f"mean return to {int(samples[part[-1]]):,} samples"
        spread = float(returns[part].std(ddof=1)) if len(part) > 1 else None
        rows.append(ReproductionRow(NAME, piece, column, None, float(returns[part].mean()), spread, len(part)))
    return rows
