"""Where agents come from: a folder with trainings, what is shipped, or a training made now."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.files.faults import bad_file
from allocopt.reproduction import ReproductionRequest
from learned.cush.policies import Trained, load_trained
from learned.cush.selectors import Agent
from learned.cush.training import CushTraining

Curve = list[dict[str, float]]
"""What was measured after every epoch."""

SHORT_EPOCHS, QUICK_EPOCHS = 200, 20
"""Epochs of a training that is made for one number of a figure, and where the run is quick."""


def usual_trainings(folder: str, machine: str) -> list[Path]:
    """Return the folders with usual trainings for a machine, by their seeds.

    Raises
    ------
    BadFileError
        If there is no such folder.
    """
    if not folder:
        return []
    if not Path(folder).is_dir():
        raise bad_file(folder, "no such folder; must be one with trainings in it")
    usual = CushTraining(machine=machine)
    found = []
    for path in sorted(Path(folder).glob("cush-*/weights.safetensors")):
        card = load_trained(str(path)).card
        fields = ("machine", "nodes", "settings", "network", "policies", "measured", "unknown_share")
        if all(card.settings[name] == getattr(usual, name) for name in fields):
            found.append((card.seed, path.parent))
    return [path for _, path in sorted(found)]


def agents_for(folder: str, machine: str) -> list[Trained]:
    """Return the agents in a folder for a machine, by their seeds, or the one that is shipped."""
    paths = usual_trainings(folder, machine)
    return [load_trained(str(path / "weights.safetensors")) for path in paths] or [load_trained(machine)]


def train_now(training: CushTraining, seed: int) -> tuple[Agent, Curve]:
    """Train, and return the best agent and what was measured after every epoch."""
    from learned.cush.learner import CushLearner
    from learned.rl.workers import ALONE

    learner: CushLearner = training.learner(seed, ALONE)
    curve = [learner.update(epoch / training.n_epochs) for epoch in range(training.n_epochs)]
    return learner.best_agent(), curve


def epochs_of(request: ReproductionRequest, full: int = SHORT_EPOCHS) -> int:
    """Return the epochs of a training made now."""
    return QUICK_EPOCHS if request.is_quick else full


def points_of(curve: Sequence[dict[str, Any]], names: Sequence[str], points: int = 10) -> dict[str, list[float]]:
    """Return some epochs of a curve, evenly spread, and what was measured after them."""
    places = np.unique(np.linspace(0, len(curve) - 1, min(points, len(curve))).round().astype(np.int64)).tolist()
    found = {"epoch": [float(place + 1) for place in places]}
    return found | {name: [float(curve[place][name]) for place in places] for name in names}
