"""The NSA paper's networks: shapes, parameters, first weights, and a kernel that computes what torch computes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from allocopt.arrays import Float32Array
from allocopt.learned.nsa.learner import FeedForward
from allocopt.learned.nsa.networks import (
    CONVOLUTION,
    DENSE,
    NETWORKS,
    PRINTED_PARAMETERS,
    TANH,
    Architecture,
    _Layer,
    _rational_tanh,
    forward,
)
from allocopt.learned.rl.networks import set_weights, weights_of

# The fully connected networks have as many parameters as the paper prints, the others cannot have.
TRUE_PARAMETERS = PRINTED_PARAMETERS | {"cnn-1": 71_260, "cnn-2": 71_504, "cnn-3": 117_372}


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks_have_the_documented_sizes_and_the_printed_ones_where_these_can_be(name: str) -> None:
    network = NETWORKS[name]
    assert network.n_parameters == TRUE_PARAMETERS[name]
    if name.startswith("cnn"):
        dense = next(layer for layer in network.layers if layer.kind == DENSE)
        assert (dense.inputs, dense.outputs) == (352 if name == "cnn-3" else 176, 256)
        assert network.n_parameters != PRINTED_PARAMETERS[name]
    # The critic differs in the last layer alone.
    critic = network.with_outputs(1)
    assert critic.layers[:-1] == network.layers[:-1]
    assert (network.shapes()[-1], critic.shapes()[-1]) == ((1, 100), (1, 1))


@pytest.mark.parametrize(
    "layers", [(_Layer(DENSE, 5, 2),), (_Layer(CONVOLUTION, 3, 1, 2, 1),), (_Layer(CONVOLUTION, 2, 1, 5, 1),)]
)
def test_layers_that_do_not_fit_are_refused(layers: tuple[_Layer, ...]) -> None:
    with pytest.raises(ValueError, match="does not take an input of shape"):
        Architecture((2, 4), layers)


def random_weights(architecture: Architecture, rng: np.random.Generator) -> dict[str, Float32Array]:
    weights: dict[str, Float32Array] = {}
    for index, layer in enumerate(architecture.layers):
        if layer.kind != TANH:
            weights[f"{index}.weight"] = rng.normal(0, 0.3, layer.weight_shape).astype(np.float32)
            weights[f"{index}.bias"] = rng.normal(0, 0.3, layer.outputs).astype(np.float32)
    return weights


def test_the_rational_hyperbolic_tangent_is_within_a_hundred_thousandth() -> None:
    values = np.linspace(-20, 20, 40_001).astype(np.float32)
    worst = max(abs(float(_rational_tanh(value)) - np.tanh(float(value))) for value in values)
    assert worst < 1e-5


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    shape = channels, length = draw(st.integers(1, 4)), draw(st.integers(1, 30))
    layers: list[_Layer] = []
    for _ in range(draw(st.integers(0, 2))):
        width, stride = draw(st.integers(1, length)), draw(st.integers(1, 3))
        layer = _Layer(CONVOLUTION, channels, draw(st.integers(1, 5)), width, stride)
        layers += [layer, _Layer(TANH)]
        channels, length = layer.output((channels, length))
    inputs = channels * length
    for _ in range(draw(st.integers(1, 3))):
        layers += [_Layer(DENSE, inputs, draw(st.integers(1, 20))), _Layer(TANH)]
        inputs = layers[-2].outputs  # type: ignore[attr-defined]
    return Architecture(shape, tuple(layers[: draw(st.sampled_from([-1, len(layers)]))]))


@given(st.sampled_from(list(NETWORKS.values())) | architectures(), st.integers(0, 2**32))
def test_the_kernel_agrees_with_torch_on_any_network(architecture: Architecture, seed: int) -> None:
    rng, module = np.random.default_rng(seed), FeedForward(architecture)
    set_weights(module, random_weights(architecture, rng))
    inputs = rng.normal(size=(3, *architecture.input)).astype(np.float32)
    packed, buffers = architecture.pack(weights_of(module)), architecture.buffers()
    found = [forward(packed, buffers, values.ravel()).copy() for values in inputs]
    np.testing.assert_allclose(found, module(torch.from_numpy(inputs)).detach().numpy(), atol=1e-4)


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
