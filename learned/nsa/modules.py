"""The networks of NSA as torch modules, and their initial weights: what counts in numbers of switches is their change.

Numbers of neighbouring switches differ by a hundredth and drown in the numbers themselves. The filters of the first
two features begin without a mean, so that they see changes alone, and large, so that these drive the hyperbolic
tangent. Nothing else keeps the training from finding any other weights.
"""

import torch
from torch import nn

from learned.nsa.networks import CONVOLUTION, DENSE, Architecture, Layer

GAINS = (200.0, 60.0, 2.0, 2.0, 2.0)  # Scales of torch's own initial weights, by feature
N_NUMBERS = 2  # The first features are numbers of groups
SPAN = 5  # Neighbours whose mean is taken from the weights of a dense layer


class FeedForward(nn.Sequential):
    """An architecture as a module; takes ``(batch, channels, length)``, returns ``(batch, outputs)``."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__(*(_module(layer) for layer in architecture.layers))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Apply all layers."""
        values = inputs
        for module in self:
            if isinstance(module, nn.Linear):
                values = values.flatten(1)
            values = module(values)
        return values.flatten(1)


def _module(layer: Layer) -> nn.Module:
    if layer.kind == CONVOLUTION:
        return nn.Conv1d(layer.inputs, layer.outputs, layer.width, layer.stride)
    return nn.Linear(layer.inputs, layer.outputs) if layer.kind == DENSE else nn.Tanh()


def sharpen_first_layer(network: FeedForward, n_features: int) -> None:
    """Scale the first layer's weights, and make those of switches and pods see changes only."""
    first = network[0]
    assert isinstance(first, nn.Linear | nn.Conv1d)
    with torch.no_grad():
        weight = first.weight.view(len(first.weight), n_features, -1)
        for feature in range(n_features):
            values = weight[:, feature]
            if feature < N_NUMBERS and isinstance(first, nn.Linear):
                padded = nn.functional.pad(values[:, None], (SPAN // 2, SPAN // 2), mode="replicate")
                values = values - nn.functional.avg_pool1d(padded, SPAN, 1)[:, 0]
            elif feature < N_NUMBERS:
                values = values - values.mean(1, keepdim=True)
            weight[:, feature] = values * GAINS[feature]
