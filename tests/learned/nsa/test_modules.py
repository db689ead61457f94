"""The first layer begins blind to the numbers of switches and pods themselves, and sees where they change."""

import numpy as np
import pytest

from learned.nsa.networks import NETWORKS

torch = pytest.importorskip("torch")

from learned.nsa.learner import FeedForward  # noqa: E402


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_a_shift_of_all_numbers_changes_little_and_changes_among_them_much(name: str) -> None:
    architecture = NETWORKS[name]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = FeedForward(architecture)
        network.sharpen_first_layer(architecture.input[0])
    even, shifted = torch.zeros(1, *architecture.input), torch.zeros(1, *architecture.input)
    shifted[0, :2] = 0.3
    stepped = even.clone()
    stepped[0, :2, ::2] = 0.3
    with torch.no_grad():
        flat = [values.flatten(1) if name.startswith("fcn") else values for values in (even, shifted, stepped)]
        outputs = [network[0](values).numpy() for values in flat]
    by_shift, by_step = (np.abs(output - outputs[0]).max() for output in outputs[1:])
    assert by_step > 2 * by_shift
