"""Both selectors at work, without torch: drawing choices by their probabilities, or taking the best."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.simulator.locality import Policy
from learned.cush.networks import N_NUMBERS, ORACLE, PolicyNetwork
from learned.dras.acting import best_actions, draw_actions
from learned.inference.networks import check_weights
from learned.inference.slots import PackedSlots, pack_slots

Parameters = Mapping[str, Float32Array]


class JobSelector(Protocol):
    """Chooses a slot, or to do nothing, in many episodes at once."""

    def draw(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray) -> IntArray:
        """Draw choices by their probabilities.

        Parameters
        ----------
        observations, legal
            As `allocopt.envs.cush.task.Episodes.observe` returns them.
        uniform
            Random numbers within 0 .. 1, shape ``(E,)``.

        Returns
        -------
        IntArray
            Choices, shape ``(E,)``.
        """

    def best(self, observations: Float32Array, legal: BoolArray) -> IntArray:
        """Take the most probable choices; see `draw`."""


@dataclass(frozen=True, slots=True, eq=False)
class CompactSelector:
    """The compact network as a job selector."""

    network: PackedSlots

    @classmethod
    def of(cls, weights: Parameters) -> "CompactSelector":
        """Arrange weights; raises ValueError unless they are those of a compact network."""
        return cls(pack_slots(weights))

    def draw(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray) -> IntArray:
        """Draw choices; see `JobSelector.draw`."""
        values, chosen = np.zeros(legal.shape[1], dtype=np.float32), np.zeros(len(legal), dtype=np.int64)
        draw_actions(self.network, observations, legal, uniform, values, chosen)
        return chosen

    def best(self, observations: Float32Array, legal: BoolArray) -> IntArray:
        """Take the most probable choices; see `JobSelector.best`."""
        values, chosen = np.zeros(legal.shape[1], dtype=np.float32), np.zeros(len(legal), dtype=np.int64)
        best_actions(self.network, observations, legal, values, chosen)
        return chosen


class PolicySelector(Protocol):
    """Chooses the policy of jobs that start."""

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Draw policies by their probabilities.

        Parameters
        ----------
        described
            What is known of each job, shape ``(n, inputs)``.
        penalties
            Under each `Policy`, shape ``(n, 2)``; only an oracle looks at them.
        uniform
            Random numbers within 0 .. 1, shape ``(n,)``.
        """

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Take the most probable policies; see `draw`."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicies:
    """The network of the policy selector.

    Parameters
    ----------
    weights
        Its parameters by name.

    Raises
    ------
    ValueError
        If one is missing, or has another shape.
    """

    weights: Parameters

    def __post_init__(self) -> None:
        inputs = self.weights["0.weight"].shape[-1] if "0.weight" in self.weights else N_NUMBERS
        check_weights(PolicyNetwork(inputs - N_NUMBERS).shapes(), dict(self.weights))

    def logits(self, described: Float32Array) -> Float32Array:
        """Return the network's outputs, shape ``(n, 2)``."""
        weights = self.weights
        hidden = np.maximum(described @ weights["0.weight"].T + weights["0.bias"], np.float32(0.0))
        return np.asarray(hidden @ weights["2.weight"].T + weights["2.bias"], dtype=np.float32)

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Draw policies; see `PolicySelector.draw`."""
        logits = self.logits(described).astype(np.float64)
        first = 1.0 / (1.0 + np.exp(np.clip(logits[:, 1] - logits[:, 0], -60.0, 60.0)))
        return np.asarray((uniform >= first).astype(np.int64))

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Take the most probable policies; see `PolicySelector.best`."""
        return np.asarray(self.logits(described).argmax(axis=1), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class OnePolicy:
    """The same policy for all jobs: what a job selector alone can give."""

    policy: int

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Return it; see `PolicySelector.draw`."""
        return self.best(described, penalties)

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Return it; see `PolicySelector.best`."""
        return np.full(len(described), self.policy, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class OraclePolicies:
    """The better policy for every job: the most that a policy selector can give."""

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Return them; see `PolicySelector.draw`."""
        return self.best(described, penalties)

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Return them; see `PolicySelector.best`."""
        return np.asarray(penalties.argmin(axis=1), dtype=np.int64)


def fixed_policies(how: str) -> PolicySelector:
    """Return what stands in the place of the policy selector, one of `learned.cush.networks.FIXED`."""
    if how == ORACLE:
        return OraclePolicies()
    return OnePolicy(next(policy for policy in Policy if policy.label == how))
