"""Architectures as torch modules."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from allocopt.arrays import Float32Array
from learned.networks.layers import Architecture, Convolution, Layer, Linear


class FeedForward(nn.Sequential):
    """An architecture as a module; takes ``(batch, channels, length)``, returns ``(batch, outputs)``.

    Parameters
    ----------
    architecture
        The layers; parameters are named as `learned.networks.layers.parameter_names` says.
    last_gain
        Scale of the last layer's initial weights; small ones make the first policy nearly uniform.
    """

    def __init__(self, architecture: Architecture, last_gain: float = 1.0) -> None:
        super().__init__(*(_module(layer) for layer in architecture.layers))
        with torch.no_grad():
            for parameter in self[-1].parameters():
                parameter.mul_(last_gain)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Apply all layers."""
        values = inputs
        for module in self:
            if isinstance(module, nn.Linear):
                values = values.flatten(1)
            values = module(values)
        return values.flatten(1)


def _module(layer: Layer) -> nn.Module:
    """Make one layer."""
    if isinstance(layer, Convolution):
        return nn.Conv1d(layer.inputs, layer.outputs, layer.width, layer.stride)
    if isinstance(layer, Linear):
        return nn.Linear(layer.inputs, layer.outputs)
    return nn.Tanh()


def weights_of(module: nn.Module) -> dict[str, Float32Array]:
    """Parameters of a module as arrays by name."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def load_weights(module: nn.Module, weights: Mapping[str, Float32Array]) -> None:
    """Set the parameters of a module.

    Raises
    ------
    RuntimeError
        If names or shapes are others.
    """
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
