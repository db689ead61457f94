"""Files of weights keep what was written and name faults; the compact network acts without torch."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from allocopt.errors import BadFileError
from allocopt.learned.rl.slots import CompactNetwork, SlotPolicy, _write_values
from allocopt.learned.weights import Card, read_weights, write_weights

CARD = Card("nsa", "cnn-3", 3, 10, "0.1.0", "abc", "allocopt train nsa", {"ppo": {"clip": 0.2}})


def test_weights_and_card_come_back_as_they_were_written_and_equal_ones_give_equal_files(tmp_path: Path) -> None:
    weights = {"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0.bias": np.ones(2, dtype=np.float32)}
    write_weights(tmp_path / "w.safetensors", weights, CARD)
    found, card = read_weights(tmp_path / "w.safetensors")
    assert card == CARD
    assert found.keys() == weights.keys()
    assert all(np.array_equal(found[name], weights[name]) for name in weights)
    write_weights(tmp_path / "again", weights, CARD)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "w.safetensors").read_bytes()


def test_a_file_that_is_none_of_ours_is_named(tmp_path: Path) -> None:
    missing, garbage, foreign = (tmp_path / name for name in ("missing", "garbage", "foreign"))
    garbage.write_bytes(b"not weights")
    save_file({"w": np.ones(1, dtype=np.float32)}, foreign)
    for path, fault in ((missing, "missing"), (garbage, "garbage"), (foreign, "foreign"), (tmp_path, "is a directory")):
        with pytest.raises(BadFileError, match=fault):
            read_weights(path)


@pytest.mark.parametrize(
    "card",
    ["no json", "[]", "null", "NaN", "{}", "[" * 100_000, json.dumps({**asdict(CARD), "network": [1]})],
    ids=lambda card: card[:12],
)
def test_a_card_that_is_none_is_said_in_a_line(tmp_path: Path, card: str) -> None:
    save_file({"w": np.ones(1, dtype=np.float32)}, tmp_path / "w.safetensors", {"allocopt": card})
    with pytest.raises(BadFileError, match=r"w\.safetensors: is not a file of weights") as error:
        read_weights(tmp_path / "w.safetensors")
    assert len(str(error.value).splitlines()) == 1


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


@pytest.mark.parametrize("critic", [0, 8])
def test_a_compact_network_gives_without_torch_what_it_gives_with_it(critic: int) -> None:
    torch = pytest.importorskip("torch")
    from allocopt.learned.rl.networks import SlotActorCritic, SlotNetwork, weights_of

    rng = np.random.default_rng(3)
    network = CompactNetwork(12, 32, 16, critic)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = SlotActorCritic(network) if critic else SlotNetwork(network)
    weights = weights_of(module)
    assert CompactNetwork.of(weights) == network
    assert {name: array.shape for name, array in weights.items()} == network.shapes()
    features = rng.normal(size=(9, 12)).astype(np.float32)
    values = np.zeros(9, dtype=np.float32)
    assert _write_values(SlotPolicy.of(weights).network, features, np.arange(9) < 6, values) == 6
    expected = module.actor(torch.from_numpy(features))[:, 0].detach().numpy()
    np.testing.assert_allclose(values[:6], expected[:6], atol=1e-5)
    assert not values[6:].any()
    # To the module, a slot is empty where its first feature is 0, and worth nothing.
    features[6:, 0] = 0.0
    if not critic:
        torch.testing.assert_close(module(torch.from_numpy(features)[None])[0].detach().numpy()[:6], expected[:6])
        assert not module(torch.from_numpy(features)[None])[0, 6:].any()


def test_a_missing_or_misshapen_parameter_is_named() -> None:
    weights = {name: np.zeros(shape, dtype=np.float32) for name, shape in CompactNetwork(4).shapes().items()}
    with pytest.raises(ValueError, match=r"actor\.2\.bias"):
        SlotPolicy.of({**weights, "actor.2.bias": np.zeros(3, dtype=np.float32)})
    del weights["actor.0.weight"]
    with pytest.raises(ValueError, match=r"actor\.0\.weight"):
        SlotPolicy.of(weights)
