"""The networks of CuSH as torch modules, and how those that learn act."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.simulator.locality import Policy
from learned.cush.selectors import FILTERS, HIDDEN, N_NUMBERS, SIDE, ImageNetwork, JobSelector, LearnedPolicies
from learned.rl.networks import dense, masked, masked_log_softmax, slot_layers, weights_of
from learned.rl.slots import CompactNetwork, SlotPolicy, pack_slots

MOMENTUM = 0.1
"""Share of a batch in the running statistics of batch normalization."""


class SlotRows(NamedTuple):
    """States of ``n`` choices: features ``(R, K)`` of the legal ones alone, of which ``(n, Q + 1)`` says where."""

    rows: torch.Tensor
    legal: torch.Tensor


class SelectorModule(nn.Module):
    """A job selector that learns; its states are what `states` makes of observations."""

    largest_batch: int
    """Choices that it learns from together, at most; more do not fit in a cache."""

    def states(self, observations: Float32Array, legal: BoolArray) -> "SlotRows | torch.Tensor":
        """Turn observations of ``n`` choices into what the module takes."""
        raise NotImplementedError

    def acting(self) -> JobSelector:
        """Return what acts by the present weights."""
        raise NotImplementedError


class CompactModule(SelectorModule):
    """The compact job selector; takes `SlotRows`."""

    largest_batch = 100_000

    def __init__(self, network: CompactNetwork) -> None:
        super().__init__()
        self.actor = slot_layers(network)

    def forward(self, states: SlotRows) -> torch.Tensor:
        """Return logits, shape ``(n, Q + 1)``, the smallest there are for illegal choices."""
        logits = states.rows.new_full(states.legal.shape, torch.finfo(states.rows.dtype).min)
        logits[states.legal] = self.actor(states.rows).squeeze(-1)
        return logits

    def states(self, observations: Float32Array, legal: BoolArray) -> SlotRows:
        """Keep the features of what is legal."""
        return SlotRows(torch.from_numpy(observations[legal]), torch.from_numpy(legal))

    def acting(self) -> JobSelector:
        """Return what acts by the present weights, without torch."""
        return SlotPolicy(pack_slots(weights_of(self)))


class ImageModule(SelectorModule):
    """The paper's job selector; takes images ``(n, Q + 1, T, units)``.

    Batch normalization is by running statistics also while it learns, so that probabilities are those by which choices
    were drawn; every batch that is learned from moves the statistics.
    """

    largest_batch = 256

    def __init__(self, network: ImageNetwork) -> None:
        super().__init__()
        choices = network.queue + 1
        self.filters = nn.Conv2d(choices, FILTERS, SIDE)
        self.norm = nn.BatchNorm2d(FILTERS, momentum=MOMENTUM)
        self.output = nn.Linear(FILTERS * network.positions, choices)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return logits, shape ``(n, Q + 1)``."""
        found = torch.relu(self.filters(states))
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        # Copies, for gradients still need what was used when the statistics have moved.
        mean, variance = norm.running_mean.clone(), norm.running_var.clone()
        values = nn.functional.batch_norm(found, mean, variance, norm.weight, norm.bias)
        if torch.is_grad_enabled():
            self._remember(found.detach())
        logits: torch.Tensor = self.output(values.flatten(1))
        return logits

    def states(self, observations: Float32Array, legal: BoolArray) -> torch.Tensor:
        """Return the images."""
        return torch.from_numpy(observations)

    def acting(self) -> JobSelector:
        """Return what acts by the module itself."""
        return ImageSelector(self)

    def _remember(self, found: torch.Tensor) -> None:
        with torch.no_grad():
            variance, mean = torch.var_mean(found, dim=(0, 2, 3))
            for held, new in ((self.norm.running_mean, mean), (self.norm.running_var, variance)):
                assert held is not None
                held.lerp_(new, MOMENTUM)


@dataclass(frozen=True, slots=True, eq=False)
class ImageSelector:
    """A job selector that asks a module of torch."""

    module: nn.Module

    def draw(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray) -> IntArray:
        """Draw choices; see `learned.cush.selectors.JobSelector.draw`."""
        probability = masked_log_softmax(self._logits(observations), torch.from_numpy(legal)).exp().double()
        below = probability.cumsum(1) <= torch.from_numpy(uniform)[:, None] * probability.sum(1, keepdim=True)
        # Rounding must not lead beyond the last legal choice, which is to do nothing.
        return np.asarray(below.sum(1).clamp(max=legal.shape[1] - 1).numpy())

    def best(self, observations: Float32Array, legal: BoolArray) -> IntArray:
        """Take the most probable choices; see `learned.cush.selectors.JobSelector.best`."""
        return np.asarray(masked(self._logits(observations), torch.from_numpy(legal)).argmax(1).numpy())

    def _logits(self, observations: Float32Array) -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = self.module(torch.from_numpy(observations))
        return logits


class PolicyModule(nn.Sequential):
    """The policy selector: descriptions of jobs of so many traits to logits ``(n, 2)``."""

    def __init__(self, traits: int) -> None:
        super().__init__(*dense(traits + N_NUMBERS, HIDDEN, len(Policy), activation=nn.ReLU()))

    def acting(self) -> LearnedPolicies:
        """Return what acts by the present weights, without torch."""
        return LearnedPolicies(weights_of(self))
