"""Hyper-parameters of the algorithms; needs no torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PpoSettings:
    """Hyper-parameters.

    Parameters
    ----------
    steps
        Steps of every environment between two updates.
    epochs
        Passes over these steps in an update; where steps are cheap, new ones teach more than a second pass.
    minibatch
        Samples of one gradient step.
    learning_rate
        Of Adam, at the start; it falls linearly to a twentieth at the end.
    clip
        How far the ratio of new to old probability may count, away from 1.
    entropy
        Weight of the policy's entropy, at the start.
    last_entropy
        The same at the end; it moves linearly.
    value_weight
        Weight of the critic's squared error.
    discount
        Of rewards, per step.
    trace
        Decay of the generalized advantage estimate; 1 for plain returns.
    largest_gradient
        Norm that gradients are cut at.
    """

    steps: int = 16
    epochs: int = 1
    minibatch: int = 512
    learning_rate: float = 1.5e-3
    clip: float = 0.2
    entropy: float = 0.01
    last_entropy: float = 0.005
    value_weight: float = 0.5
    discount: float = 1.0
    trace: float = 0.95
    largest_gradient: float = 0.5
