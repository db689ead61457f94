"""Every training ends with the same weights whether it was cut off or not, and its card says how they were made."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocopt.training import TrainingRequest, get_training
from learned.weights import read_weights

pytest.importorskip("torch")

DRAS = {"updates": 3, "environments": 4, "validation": 2, "every": 1, "window": 16}
CUSH = {"nodes": 4, "epochs": 4, "jobsets": 2, "simulations": 4, "pool": 10, "validation": 4}
IRMASIM = {"jobs": 20, "episodes": 12, "environments": 4}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("dras-ppo", DRAS),
    ("dras-pg", DRAS),
    ("cush", {**CUSH, "average_every": 2, "every": 2}),
    ("irmasim", {**IRMASIM, "agent": "pg"}),
    ("irmasim", {**IRMASIM, "agent": "a2c"}),
    ("nsa", {"network": "cnn-1", "updates": 3, "environments": 8, "window_epochs": 1}),
    ("lns-prices", {"updates": 6, "windows": 4, "large_windows": 1, "label_steps": 50}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)])
def test_a_training_that_is_cut_off_ends_with_the_same_weights(
    name: str, options: dict[str, Any], trace: Path, tmp_path: Path
) -> None:
    training = get_training(name, {"trace": str(trace), **options} if name.startswith("dras") else options)
    list(training.train(TrainingRequest(tmp_path / "whole", 3, None, False, "test")))
    resumes = False
    while not (tmp_path / "cut" / "weights.safetensors").exists():
        list(training.train(TrainingRequest(tmp_path / "cut", 3, 0.0, resumes, "test")))
        resumes = True
    (whole, card), (cut, _) = (read_weights(tmp_path / folder / "weights.safetensors") for folder in ("whole", "cut"))
    assert all(np.array_equal(whole[part], cut[part]) for part in whole)
    assert (card.training, card.seed, card.command) == (name, 3, "test")
