"""Both selectors of CuSH (sections 3.2 and 3.3): their networks, and how they act without torch.

The job selector of the paper applies 16 filters of 2 x 2 to the image, then a rectifier, batch normalization and a
dense layer with an output for every choice. The compact one, `CompactNetwork`,
looks at the features of one choice at a time, with the same weights for all of them, so that neither the machine nor
the queue has a say in its size. The policy selector has 10 hidden neurons.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.simulator.locality import Policy
from learned.weights import Weights, check_shapes

JOBS, POLICIES = "jobs.", "policies."
"""What the names of both networks' parameters begin with where they are together."""
LEARNED, ORACLE = "learned", "oracle"
FIXED = (*(policy.label for policy in Policy), ORACLE)
"""What may stand in the place of the policy selector: one policy for all jobs, or the better one of each."""
FILTERS, SIDE = 16, 2
HIDDEN = 10
N_NUMBERS = 3
"""What a policy selector is told of a job beside its traits; see `Episodes.descriptions`."""


@dataclass(frozen=True, slots=True)
class ImageNetwork:
    """Sizes of the paper's job selector: slots Q, rows T of the image, and its columns, CPUs and GPUs of the machine.

    Raises `UsageError` if a filter has no place in the image.
    """

    queue: int
    horizon: int
    units: int

    def __post_init__(self) -> None:
        if self.horizon < SIDE:
            raise UsageError(f"the horizon is {self.horizon}, must be at least {SIDE} for filters of {SIDE} x {SIDE}")

    @property
    def positions(self) -> int:
        """Places of a filter in the image."""
        return (self.horizon - SIDE + 1) * (self.units - SIDE + 1)


def policy_shapes(inputs: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the policy selector's parameters by name, for so many numbers that describe a job."""
    return {
        "0.weight": (HIDDEN, inputs),
        "0.bias": (HIDDEN,),
        "2.weight": (len(Policy), HIDDEN),
        "2.bias": (len(Policy),),
    }


def parts_of(weights: Mapping[str, Float32Array], prefix: str) -> dict[str, Float32Array]:
    """Return the parameters of one of the selectors."""
    return {name.removeprefix(prefix): values for name, values in weights.items() if name.startswith(prefix)}


class JobSelector(Protocol):
    """Chooses a slot, or to do nothing, in many episodes at once; `learned.rl.slots.SlotPolicy` is one."""

    def draw(self, observations: Float32Array, legal: BoolArray, uniform: FloatArray) -> IntArray:
        """Draw choices by their probabilities and random numbers within 0 .. 1, all of shape ``(E,)``.

        Observations and legal choices are as `allocopt.envs.cush.episodes.Episodes.observe` returns them.
        """

    def best(self, observations: Float32Array, legal: BoolArray) -> IntArray:
        """Take the most probable choices; see `draw`."""


class PolicySelector(Protocol):
    """Chooses the policy of jobs that start."""

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Draw policies by their probabilities and random numbers within 0 .. 1, all of shape ``(n,)``.

        What is known of each job has shape ``(n, inputs)``; only an oracle looks at penalties under each `Policy`,
        shape ``(n, 2)``.
        """

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Take the most probable policies; see `draw`."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A job selector and a policy selector."""

    jobs: JobSelector
    policies: PolicySelector


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicies:
    """The network of the policy selector; raises ValueError if a parameter is missing, or has another shape."""

    weights: Weights

    def __post_init__(self) -> None:
        inputs = self.weights["0.weight"].shape[-1] if "0.weight" in self.weights else N_NUMBERS
        check_shapes(policy_shapes(inputs), self.weights)

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Draw policies; see `PolicySelector.draw`."""
        logits = self._logits(described).astype(np.float64)
        first = 1.0 / (1.0 + np.exp(np.clip(logits[:, 1] - logits[:, 0], -60.0, 60.0)))
        return np.asarray((uniform >= first).astype(np.int64))

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Take the most probable policies; see `PolicySelector.best`."""
        return np.asarray(self._logits(described).argmax(axis=1), dtype=np.int64)

    def _logits(self, described: Float32Array) -> Float32Array:
        weights = self.weights
        hidden = np.maximum(described @ weights["0.weight"].T + weights["0.bias"], np.float32(0.0))
        return np.asarray(hidden @ weights["2.weight"].T + weights["2.bias"], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class FixedPolicies:
    """What stands in the place of the policy selector, one of `FIXED`.

    The same policy for all jobs is what a job selector alone can give, the oracle the most that a policy selector can.
    """

    how: str

    def draw(self, described: Float32Array, penalties: FloatArray, uniform: FloatArray) -> IntArray:
        """Return the policies, which nothing is drawn for; see `PolicySelector.draw`."""
        return self.best(described, penalties)

    def best(self, described: Float32Array, penalties: FloatArray) -> IntArray:
        """Return the policies; see `PolicySelector.best`."""
        if self.how == ORACLE:
            return np.asarray(penalties.argmin(axis=1), dtype=np.int64)
        chosen = next(policy for policy in Policy if policy.label == self.how)
        return np.full(len(described), int(chosen), dtype=np.int64)
