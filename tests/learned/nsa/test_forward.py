"""The forward kernel computes what torch computes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.arrays import Float32Array
from learned.nsa.networks import (
    CONVOLUTION,
    DENSE,
    NETWORKS,
    TANH,
    Architecture,
    Layer,
    _rational_tanh,
    forward,
)


def random_weights(architecture: Architecture, rng: np.random.Generator) -> dict[str, Float32Array]:
    weights: dict[str, Float32Array] = {}
    for index, layer in enumerate(architecture.layers):
        if layer.kind != TANH:
            shape = (layer.outputs, layer.inputs) + ((layer.width,) if layer.kind == CONVOLUTION else ())
            weights[f"{index}.weight"] = rng.normal(0, 0.3, shape).astype(np.float32)
            weights[f"{index}.bias"] = rng.normal(0, 0.3, layer.outputs).astype(np.float32)
    return weights


def twin(architecture: Architecture, weights: dict[str, Float32Array], values: np.ndarray) -> np.ndarray:
    """Apply the layers one number at a time, in double precision."""
    values = values.astype(np.float64)
    for index, layer in enumerate(architecture.layers):
        if layer.kind == TANH:
            values = np.tanh(values)
            continue
        weight, bias = weights[f"{index}.weight"].astype(np.float64), weights[f"{index}.bias"]
        if layer.kind == DENSE:
            values = (weight @ values.ravel() + bias)[None]
        elif layer.kind == CONVOLUTION:
            length = layer.output(values.shape)[1]
            starts = layer.stride * np.arange(length)
            values = np.array(
                [
                    [(weight[f] * values[:, s : s + layer.width]).sum() + bias[f] for s in starts]
                    for f in range(layer.outputs)
                ]
            )
    return values.ravel()


def kernel_outputs(architecture: Architecture, weights: dict[str, Float32Array], inputs: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(inputs, dtype=np.float32).ravel()
    return forward(architecture.pack(weights), architecture.buffers(), flat).copy()


def test_the_rational_hyperbolic_tangent_is_within_a_hundred_thousandth() -> None:
    values = np.linspace(-20, 20, 40_001).astype(np.float32)
    worst = max(abs(float(_rational_tanh(value)) - np.tanh(float(value))) for value in values)
    assert worst < 1e-5


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_kernel_agrees_with_torch_on_all_networks(name: str) -> None:
    torch = pytest.importorskip("torch")
    from learned.nsa.learner import FeedForward
    from learned.rl.networks import set_weights, weights_of

    architecture, rng = NETWORKS[name], np.random.default_rng(1)
    module = FeedForward(architecture)
    set_weights(module, random_weights(architecture, rng))
    inputs = rng.normal(size=(50, *architecture.input)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(inputs)).numpy()
    weights = weights_of(module)
    found = np.array([kernel_outputs(architecture, weights, values) for values in inputs])
    assert np.abs(found - expected).max() < 1e-4


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    shape = channels, length = draw(st.integers(1, 4)), draw(st.integers(1, 30))
    layers: list[Layer] = []
    for _ in range(draw(st.integers(0, 2))):
        width, stride = draw(st.integers(1, length)), draw(st.integers(1, 3))
        layer = Layer(CONVOLUTION, channels, draw(st.integers(1, 5)), width, stride)
        layers += [layer, Layer(TANH)]
        channels, length = layer.output((channels, length))
    inputs = channels * length
    for _ in range(draw(st.integers(1, 3))):
        layers += [Layer(DENSE, inputs, draw(st.integers(1, 20))), Layer(TANH)]
        inputs = layers[-2].outputs  # type: ignore[attr-defined]
    return Architecture("any", shape, tuple(layers[: draw(st.sampled_from([-1, len(layers)]))]))


@given(architectures(), st.integers(0, 2**32))
def test_the_kernel_agrees_with_its_slow_twin_on_any_network(architecture: Architecture, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, inputs = random_weights(architecture, rng), rng.normal(size=architecture.input).astype(np.float32)
    found = kernel_outputs(architecture, weights, inputs)
    assert found == pytest.approx(twin(architecture, weights, inputs), abs=1e-4)


def test_parameters_that_do_not_fit_are_refused() -> None:
    architecture = Architecture("two", (1, 3), (Layer(DENSE, 3, 2),))
    weights = random_weights(architecture, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"'0.bias' is missing"):
        architecture.pack({"0.weight": weights["0.weight"]})
    with pytest.raises(ValueError, match=r"'0.weight' has shape \(2, 2\), must be \(2, 3\)"):
        architecture.pack({**weights, "0.weight": weights["0.weight"][:, :2]})
