"""Shapes and parameter counts of networks, those of the NSA paper's Table II among them."""

import pytest

from learned.nsa.networks import (
    CONVOLUTION,
    DENSE,
    NETWORKS,
    PRINTED_PARAMETERS,
    TANH,
    Architecture,
    Layer,
)

TRUE_PARAMETERS = {
    "fcn-1": 42_724, "fcn-2": 46_884, "fcn-3": 60_804, "cnn-1": 71_260, "cnn-2": 71_504, "cnn-3": 117_372,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_networks_have_the_documented_number_of_parameters(name: str) -> None:
    assert NETWORKS[name].n_parameters == TRUE_PARAMETERS[name]
    assert NETWORKS[name].shapes()[-1] == (1, 100)


@pytest.mark.parametrize("name", ["fcn-1", "fcn-2", "fcn-3"])
def test_the_printed_counts_of_the_fully_connected_networks_hold_with_five_features(name: str) -> None:
    assert NETWORKS[name].n_parameters == PRINTED_PARAMETERS[name]
    assert NETWORKS[name].input == (5, 100)


@pytest.mark.parametrize("name", ["cnn-1", "cnn-2", "cnn-3"])
def test_the_convolutions_flatten_to_the_printed_inputs_of_the_dense_layer(name: str) -> None:
    dense = next(layer for layer in NETWORKS[name].layers if layer.kind == DENSE)
    assert (dense.inputs, dense.outputs) == (352 if name == "cnn-3" else 176, 256)
    assert NETWORKS[name].n_parameters != PRINTED_PARAMETERS[name]


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_critic_differs_in_the_last_layer_alone(name: str) -> None:
    actor, critic = NETWORKS[name], NETWORKS[name].with_outputs(1)
    assert critic.layers[:-1] == actor.layers[:-1]
    assert critic.shapes()[-1] == (1, 1)


@pytest.mark.parametrize(
    "layers", [(Layer(DENSE, 5, 2),), (Layer(CONVOLUTION, 3, 1, 2, 1),), (Layer(CONVOLUTION, 2, 1, 5, 1),)]
)
def test_layers_that_do_not_fit_are_refused(layers: tuple[Layer, ...]) -> None:
    with pytest.raises(ValueError, match="does not take an input of shape"):
        Architecture("wrong", (2, 4), layers)


def test_only_a_dense_last_layer_can_be_replaced() -> None:
    with pytest.raises(ValueError, match="must be dense"):
        Architecture("bare", (1, 4), (Layer(DENSE, 4, 4), Layer(TANH))).with_outputs(1)
