"""The compact network gives without torch what it gives with it."""

import numpy as np
import pytest

from learned.rl.slots import CompactNetwork, SlotPolicy, _write_values


@pytest.mark.parametrize("critic", [0, 8])
def test_a_compact_network_gives_without_torch_what_it_gives_with_it(critic: int) -> None:
    torch = pytest.importorskip("torch")
    from learned.rl.networks import SlotActorCritic, SlotNetwork, weights_of

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


def test_an_empty_slot_is_worth_nothing() -> None:
    torch = pytest.importorskip("torch")
    from learned.rl.networks import SlotNetwork

    module = SlotNetwork(CompactNetwork(12))
    features = np.random.default_rng(3).normal(size=(9, 12)).astype(np.float32)
    features[6:] = 0.0
    values = module(torch.from_numpy(features)[None])[0].detach()
    torch.testing.assert_close(values[:6], module.actor(torch.from_numpy(features[:6]))[:, 0])
    assert not values[6:].any()


def test_a_missing_or_misshapen_parameter_is_named() -> None:
    weights = {name: np.zeros(shape, dtype=np.float32) for name, shape in CompactNetwork(4).shapes().items()}
    with pytest.raises(ValueError, match=r"actor\.0\.weight"):
        SlotPolicy.of({name: array for name, array in weights.items() if name != "actor.0.weight"})
    with pytest.raises(ValueError, match=r"actor\.2\.bias"):
        SlotPolicy.of({**weights, "actor.2.bias": np.zeros(3, dtype=np.float32)})
