"""Trainings end the same whatever interrupts them, and keep off what is not theirs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocopt.errors import BadFileError, UsageError
from allocopt.training import TrainingRequest

torch = pytest.importorskip("torch")

from learned.training.checkpoint import NAME, read_checkpoint, write_checkpoint  # noqa: E402
from learned.training.loop import run_updates  # noqa: E402

IDENTITY = {"title": "walk", "seed": 1}


class RandomWalk:
    """Learns nothing; what it measures depends on all updates before."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(5)
        self.place = np.zeros(2)

    def update(self, share: float) -> dict[str, float]:
        """Take a step that shrinks as the training goes on."""
        self.place += (1 - share) * self._rng.normal(size=2)
        return {"samples": 1.0, "mean_return": float(self.place[0])}

    def snapshot(self) -> dict[str, Any]:
        """Return place and generator."""
        return {"place": self.place, "generator": self._rng.bit_generator.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back."""
        self.place[:] = snapshot["place"]
        self._rng.bit_generator.state = snapshot["generator"]


def request(folder: Path, *, resumes: bool = False, minutes: float | None = None) -> TrainingRequest:
    return TrainingRequest(folder, 1, minutes, resumes, "test")


def test_a_training_that_is_cut_off_again_and_again_ends_as_one_that_is_not(tmp_path: Path) -> None:
    whole, cut = RandomWalk(), RandomWalk()
    list(run_updates(whole, 7, request(tmp_path / "whole"), IDENTITY))
    done, resumes = 0, False
    while done < 7:
        cut = RandomWalk()
        *_, last = run_updates(cut, 7, request(tmp_path / "cut", resumes=resumes, minutes=0.0), IDENTITY)
        assert last.done == done + 1
        done, resumes = last.done, True
    assert cut.place.tolist() == whole.place.tolist()
    curves = [(tmp_path / name / "curve.csv").read_text().splitlines() for name in ("whole", "cut")]
    without_time = [[line.split(",")[2:] for line in curve] for curve in curves]
    assert without_time[0] == without_time[1]
    assert len(curves[0]) == 8


def test_the_share_finished_is_told_after_every_update(tmp_path: Path) -> None:
    progress = list(run_updates(RandomWalk(), 4, request(tmp_path), IDENTITY))
    assert [point.share for point in progress] == [0.25, 0.5, 0.75, 1.0]


def test_a_training_is_not_overwritten(tmp_path: Path) -> None:
    list(run_updates(RandomWalk(), 1, request(tmp_path), IDENTITY))
    with pytest.raises(UsageError, match="holds a training already; --resume"):
        list(run_updates(RandomWalk(), 1, request(tmp_path), IDENTITY))


def test_there_must_be_something_to_go_on_from_and_it_must_be_the_same(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no checkpoint"):
        list(run_updates(RandomWalk(), 1, request(tmp_path, resumes=True), IDENTITY))
    list(run_updates(RandomWalk(), 1, request(tmp_path), IDENTITY))
    with pytest.raises(UsageError, match="with seed 1, not 2"):
        list(run_updates(RandomWalk(), 1, request(tmp_path, resumes=True), {**IDENTITY, "seed": 2}))


def test_a_broken_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"nothing")
    with pytest.raises(BadFileError, match=NAME):
        read_checkpoint(tmp_path, {})


def test_a_checkpoint_keeps_arrays_numbers_and_what_holds_them(tmp_path: Path) -> None:
    state = {"a": np.arange(3), "b": {"c": [1, 2.5, np.ones((2, 2))], "big": 2**100}, "d": torch.ones(2)}
    write_checkpoint(tmp_path, IDENTITY, state)
    found = read_checkpoint(tmp_path, IDENTITY)
    assert found["a"].tolist() == [0, 1, 2]
    assert found["a"].dtype == np.int64
    assert found["b"]["c"][:2] == [1, 2.5]
    assert found["b"]["c"][2].tolist() == [[1, 1], [1, 1]]
    assert found["b"]["big"] == 2**100
    assert torch.equal(found["d"], torch.ones(2))
