"""Files of weights keep what was written, and say what is wrong with them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from allocopt.errors import BadFileError
from learned.weights import Card, read_weights, write_weights

CARD = Card("nsa", "cnn-3", 3, 10, "0.1.0", "abc", "allocopt train nsa", {"ppo": {"clip": 0.2}})


def test_weights_and_card_come_back_as_they_were_written(tmp_path: Path) -> None:
    weights = {"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0.bias": np.ones(2, dtype=np.float32)}
    write_weights(tmp_path / "w.safetensors", weights, CARD)
    found, card = read_weights(tmp_path / "w.safetensors")
    assert card == CARD
    assert found.keys() == weights.keys()
    assert all(np.array_equal(found[name], weights[name]) for name in weights)


def test_equal_weights_give_equal_files(tmp_path: Path) -> None:
    for name in "ab":
        write_weights(tmp_path / name, {"w": np.ones(3, dtype=np.float32)}, CARD)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_that_is_none_of_ours_is_named(tmp_path: Path) -> None:
    missing, garbage, foreign = (tmp_path / name for name in ("missing", "garbage", "foreign"))
    garbage.write_bytes(b"not weights")
    save_file({"w": np.ones(1, dtype=np.float32)}, foreign)
    for path in (missing, garbage, foreign):
        with pytest.raises(BadFileError, match=path.name):
            read_weights(path)


@pytest.mark.parametrize(
    "card",
    ["no json", "[]", "null", "NaN", "{}", "[" * 100_000, json.dumps({**asdict(CARD), "network": [1]})],
    ids=lambda card: card[:12],
)
def test_a_card_that_is_none_is_said_in_a_line(tmp_path: Path, card: str) -> None:
    save_file({"w": np.ones(1, dtype=np.float32)}, tmp_path / "w.safetensors", {"allocopt": card})
    with pytest.raises(BadFileError, match=r"w\.safetensors: is no file of weights") as error:
        read_weights(tmp_path / "w.safetensors")
    assert len(str(error.value).splitlines()) == 1


def test_a_folder_is_no_file_of_weights(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="is a directory, must be a file"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    "array",
    [np.array([1, np.nan], dtype=np.float32), np.array([np.inf], dtype=np.float32), np.ones(2, dtype=np.int32)],
    ids=["nan", "infinite", "integers"],
)
def test_weights_that_are_no_finite_numbers_are_refused(tmp_path: Path, array: NDArray[Any]) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"ok": np.ones(1, dtype=np.float32), "w": array}, path, {"allocopt": json.dumps(asdict(CARD))})
    with pytest.raises(BadFileError, match=r"w\.safetensors: parameter 'w' must hold finite 32-bit numbers"):
        read_weights(path)
