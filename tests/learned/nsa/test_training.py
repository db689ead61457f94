"""The training of NSA: it learns, and ends the same whatever interrupts it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from allocopt.learned.nsa import training as training_module
from allocopt.learned.nsa.solver import Nsa
from allocopt.learned.nsa.training import NsaTraining, _training_windows
from allocopt.learned.rl.networks import weights_of
from allocopt.learned.rl.training import PpoSettings
from allocopt.solving.budget import Budget
from allocopt.training import TrainingRequest


def trained(folder: Path, training: NsaTraining, seed: int = 0) -> Path:
    list(training.train(TrainingRequest(folder, seed, None, False, "test")))
    return folder / "weights.safetensors"


@pytest.mark.slow
def test_another_seed_begins_with_other_weights() -> None:
    training = NsaTraining("fcn-2", updates=1, environments=8, window_epochs=1)
    one, two = (weights_of(training.learner(seed).model)["actor.0.weight"] for seed in (1, 2))
    assert not np.array_equal(one, two)


@pytest.mark.slow
def test_a_short_training_improves_on_its_own_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The usual rate takes more samples. By five walks each, seeds 0 to 2 gain 6.2, 3.2 and 5.5 standard errors.
    monkeypatch.setattr(training_module, "PpoSettings", partial(PpoSettings, learning_rate=5e-3))
    start = trained(tmp_path / "start", NsaTraining("cnn-1", updates=1, environments=1, window_epochs=1))
    end = trained(tmp_path / "end", NsaTraining("cnn-1", updates=25, environments=256, window_epochs=4))
    problems = list(_training_windows(99, 1))
    before, after = (
        np.array([[Nsa(str(path)).solve(p, Budget(iterations=20), k).objective for k in range(10)] for p in problems])
        for path in (start, end)
    )
    assert after.sum() < before.sum()
    # Paired over the windows, the gain is more than three standard errors.
    gains = (before - after).mean(axis=1)
    assert gains.mean() > 3 * gains.std() / np.sqrt(len(gains))


@pytest.mark.slow
def test_what_a_crash_kept_from_being_written_is_written_when_it_goes_on(tmp_path: Path) -> None:
    training = NsaTraining("fcn-1", updates=1, environments=4, window_epochs=1)
    weights = trained(tmp_path, training)
    written = weights.read_bytes()
    weights.unlink()
    (progress,) = training.train(TrainingRequest(tmp_path, 0, None, True, "test"))
    assert (progress.done, progress.total) == (1, 1)
    assert set(progress.measures) >= {"samples", "mean_return"}
    assert weights.read_bytes() == written
