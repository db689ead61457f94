"""Hyper-parameters of the algorithms; needs no torch."""

from dataclasses import dataclass
from typing import Protocol


class CollectionSettings(Protocol):
    """What collecting experience needs of an algorithm's settings."""

    @property
    def steps(self) -> int:
        """Steps of every environment between two updates."""

    @property
    def discount(self) -> float:
        """Of rewards, per step."""

    @property
    def trace(self) -> float:
        """Decay of the generalized advantage estimate; 1 for plain returns."""


class ActorCriticSettings(CollectionSettings, Protocol):
    """What every learner with a critic needs of its settings."""

    @property
    def learning_rate(self) -> float:
        """Of Adam, at the start."""


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


@dataclass(frozen=True, slots=True)
class A2cSettings:
    """Hyper-parameters of A2C: one gradient step per update, on the sums of rewards up to the update's end.

    Parameters
    ----------
    steps
        Steps of every environment between two updates.
    learning_rate
        Of Adam, at the start; it falls linearly to a twentieth at the end.
    entropy
        Weight of the policy's entropy.
    value_weight
        Weight of the critic's squared error.
    discount
        Of rewards, per step.
    trace
        Decay of the generalized advantage estimate; 1 for sums of rewards.
    largest_gradient
        Norm that gradients are cut at.
    """

    steps: int = 16
    learning_rate: float = 1e-3
    entropy: float = 0.01
    value_weight: float = 0.5
    discount: float = 1.0
    trace: float = 1.0
    largest_gradient: float = 0.5


@dataclass(frozen=True, slots=True)
class PgSettings:
    """Hyper-parameters of the policy gradient without a critic.

    Parameters
    ----------
    steps
        Steps of every environment between two updates.
    learning_rate
        Of Adam, at the start; it falls linearly to a twentieth at the end.
    entropy
        Weight of the policy's entropy.
    discount
        Of rewards, per step.
    largest_gradient
        Norm that gradients are cut at.
    """

    steps: int = 16
    learning_rate: float = 1e-3
    entropy: float = 0.0
    discount: float = 1.0
    largest_gradient: float = 0.5


@dataclass(frozen=True, slots=True)
class DqlSettings:
    """Hyper-parameters of deep Q-learning.

    Parameters
    ----------
    steps
        Steps of every environment between two updates.
    learning_rate
        Of Adam, at the start; it falls linearly to a twentieth at the end.
    exploration
        Probability of a random action at the start.
    exploration_decay
        What it is multiplied by at every update.
    least_exploration
        What it does not fall below.
    discount
        Of rewards, per step.
    largest_gradient
        Norm that gradients are cut at.
    """

    steps: int = 16
    learning_rate: float = 1e-3
    exploration: float = 1.0
    exploration_decay: float = 0.995
    least_exploration: float = 0.0
    discount: float = 1.0
    largest_gradient: float = 0.5
