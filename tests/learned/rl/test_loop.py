"""Trainings end the same whatever interrupts them, keep off what is not theirs, and draw their curves."""

import signal
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from allocopt.errors import BadFileError, UsageError
from allocopt.interruption import termination_interrupts
from allocopt.learned.rl.training import NAME, _read_checkpoint, _run_updates, _write_checkpoint, _write_curve
from allocopt.training import TrainingRequest

IDENTITY = {"title": "walk", "seed": 1}


class RandomWalk:
    """Learns nothing; what it measures depends on all updates before."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(5)
        self.place = np.zeros(2)

    def update(self, share: float) -> dict[str, float]:
        self.place += (1 - share) * self._rng.normal(size=2)
        return {"samples": 1.0, "mean_return": float(self.place[0])}

    def snapshot(self) -> dict[str, Any]:
        return {"place": self.place, "generator": self._rng.bit_generator.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.place[:] = snapshot["place"]
        self._rng.bit_generator.state = snapshot["generator"]


def request(folder: Path, *, resumes: bool = False, minutes: float | None = None) -> TrainingRequest:
    return TrainingRequest(folder, 1, minutes, resumes, "test")


def test_a_training_that_is_cut_off_again_and_again_ends_as_one_that_is_not(tmp_path: Path) -> None:
    whole, cut = RandomWalk(), RandomWalk()
    list(_run_updates(whole, 7, request(tmp_path / "whole"), IDENTITY))
    done, resumes = 0, False
    while done < 7:
        cut = RandomWalk()
        *_, last = _run_updates(cut, 7, request(tmp_path / "cut", resumes=resumes, minutes=0.0), IDENTITY)
        assert last.done == done + 1
        done, resumes = last.done, True
    assert cut.place.tolist() == whole.place.tolist()
    curves = [(tmp_path / name / "curve.csv").read_text().splitlines() for name in ("whole", "cut")]
    without_time = [[line.split(",")[3:] for line in curve] for curve in curves]
    assert without_time[0] == without_time[1]
    assert len(curves[0]) == 8


def test_shares_are_told_and_a_training_is_neither_overwritten_nor_mistaken_for_another(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no checkpoint"):
        request(tmp_path, resumes=True).check_folder(NAME)
    progress = list(_run_updates(RandomWalk(), 4, request(tmp_path), IDENTITY))
    assert [point.share for point in progress] == [0.25, 0.5, 0.75, 1.0]
    with pytest.raises(UsageError, match="already has a training; continue it with --resume"):
        request(tmp_path).check_folder(NAME)
    with pytest.raises(UsageError, match="with seed 1, must be 2"):
        list(_run_updates(RandomWalk(), 1, request(tmp_path, resumes=True), {**IDENTITY, "seed": 2}))


@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 0.99])
def test_a_checkpoint_that_was_cut_or_altered_is_named(tmp_path: Path, place: float) -> None:
    _write_checkpoint(tmp_path, IDENTITY, {"a": np.arange(20_000), "rows": []})
    whole = (tmp_path / NAME).read_bytes()
    at = round(place * (len(whole) - 1))
    for broken in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], b"nothing"):
        (tmp_path / NAME).write_bytes(broken)
        with pytest.raises(BadFileError, match=rf"{NAME}: is damaged, or not a checkpoint of this training") as error:
            _read_checkpoint(tmp_path, IDENTITY)
        assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"learner": {}, "rows": []},
        {"learner": RandomWalk().snapshot(), "rows": [{}]},
        {"learner": {"place": 1}, "rows": [{"seconds": 1.0}]},
    ],
)
def test_a_checkpoint_of_another_program_is_named(tmp_path: Path, state: dict[str, Any]) -> None:
    _write_checkpoint(tmp_path, IDENTITY, state)
    with pytest.raises(BadFileError, match=f"{NAME}: is damaged, or not a checkpoint of this training"):
        list(_run_updates(RandomWalk(), 1, request(tmp_path, resumes=True), IDENTITY))


def test_a_folder_that_cannot_be_written_to_is_named_before_anything_is_learned(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, fault in (("file", "is a file, must be"), ("file/below", "cannot be"), ("x" * 300, "too long")):
        with pytest.raises(BadFileError, match=fault):
            request(tmp_path / folder).check_folder(NAME)
        with pytest.raises(UsageError, match="no checkpoint"):
            request(tmp_path / folder, resumes=True).check_folder(NAME)


class Interrupted(RandomWalk):
    """A walk whose third step an interruption comes into."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self.number = number

    def update(self, share: float) -> dict[str, float]:
        if 0.2 < share < 0.3:
            signal.raise_signal(self.number)
        return super().update(share)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interruption_waits_for_the_end_of_an_update_and_loses_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    whole, cut = RandomWalk(), RandomWalk()
    list(_run_updates(whole, 8, request(tmp_path / "whole"), IDENTITY))
    with termination_interrupts(), pytest.raises(KeyboardInterrupt, match="continue with --resume"):
        list(_run_updates(Interrupted(number), 8, request(tmp_path / "cut"), IDENTITY))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    progress = list(_run_updates(cut, 8, request(tmp_path / "cut", resumes=True), IDENTITY))
    assert progress[0].done == 4
    assert cut.place.tolist() == whole.place.tolist()


def test_a_training_has_a_checkpoint_after_its_first_update(tmp_path: Path) -> None:
    next(_run_updates(RandomWalk(), 8, request(tmp_path), IDENTITY))
    assert next(_run_updates(RandomWalk(), 8, request(tmp_path, resumes=True), IDENTITY)).done == 2


def test_a_checkpoint_keeps_arrays_numbers_and_what_holds_them(tmp_path: Path) -> None:
    state = {"a": np.arange(3), "b": {"c": [1, 2.5, np.ones((2, 2))], "big": 2**100}, "d": torch.ones(2)}
    _write_checkpoint(tmp_path, IDENTITY, state)
    found = _read_checkpoint(tmp_path, IDENTITY)
    assert (found["a"].tolist(), found["a"].dtype) == ([0, 1, 2], np.int64)
    *numbers, ones = found["b"]["c"]
    assert (numbers, ones.tolist(), found["b"]["big"]) == ([1, 2.5], [[1, 1], [1, 1]], 2**100)
    assert torch.equal(found["d"], torch.ones(2))


def test_a_curve_is_written_as_csv_and_as_a_picture_where_there_is_a_converter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"samples": 10.0 * k, "mean_return": -1.0 / (k + 1)} for k in range(5)]
    _write_curve(tmp_path, rows, "a title")
    lines = (tmp_path / "curve.csv").read_text().splitlines()
    assert lines[0] == "samples,mean_return"
    assert len(lines) == 6
    assert ElementTree.fromstring((tmp_path / "curve.svg").read_text()).tag.endswith("svg")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    (tmp_path / "other").mkdir()
    _write_curve(tmp_path / "other", rows, "a title")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["curve.csv"]
