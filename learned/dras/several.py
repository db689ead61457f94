"""Training on several machines in turn: a *generic* agent, RLScheduler's way (DRAS paper, section 6.6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.dras.task import Episodes
from learned.dras.environment import JobsetEnvironment
from learned.dras.validation import Validator


class GroupEnvironment(Protocol):
    """What collecting whole episodes needs: that of `JobsetEnvironment`."""

    @property
    def n_environments(self) -> int:
        """Episodes side by side."""

    @property
    def reward_scale(self) -> float:
        """What rewards are divided by; 0 before that is known."""

    def set_reward_scale(self, scale: float) -> None:
        """Say what rewards are divided by from now on."""

    @property
    def n_jobs(self) -> IntArray:
        """Jobs of every jobset."""

    @property
    def episodes(self) -> Episodes:
        """The episodes."""

    def begin_groups(self, n_groups: int) -> IntArray:
        """Begin all episodes anew; see `JobsetEnvironment.begin_groups`."""

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return states and legal actions."""

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Make a choice in every episode."""

    def times_s(self) -> FloatArray:
        """Return the present time of every episode in seconds."""

    def go_on_to(self, share: float) -> None:
        """Say what share of the training is finished."""

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""


class Judge(Protocol):
    """What judges policies: that of `Validator`."""

    def measures(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
        """Say how good the policy of these weights is."""


class SeveralMachines:
    """Environments of several machines, of which each in turn plays groups of episodes.

    Parameters
    ----------
    environments
        One per machine, with as many episodes side by side.
    """

    def __init__(self, environments: Sequence[JobsetEnvironment]) -> None:
        self._environments = tuple(environments)
        self._turn = 0

    @property
    def present(self) -> JobsetEnvironment:
        """The environment whose turn it is."""
        return self._environments[self._turn]

    @property
    def n_environments(self) -> int:
        """Episodes side by side."""
        return self.present.n_environments

    @property
    def n_jobs(self) -> IntArray:
        """Jobs of every jobset of the present machine."""
        return self.present.n_jobs

    @property
    def episodes(self) -> Episodes:
        """Episodes of the present machine."""
        return self.present.episodes

    @property
    def reward_scale(self) -> float:
        """Scale of the rewards on the present machine."""
        return self.present.reward_scale

    def set_reward_scale(self, scale: float) -> None:
        """Say what rewards are divided by on the present machine from now on."""
        self.present.set_reward_scale(scale)

    def begin_groups(self, n_groups: int) -> IntArray:
        """Begin all episodes anew on the next machine; see `JobsetEnvironment.begin_groups`."""
        self._turn = (self._turn + 1) % len(self._environments)
        return self.present.begin_groups(n_groups)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return states and legal actions on the present machine."""
        return self.present.observe()

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Make a choice in every episode of the present machine."""
        return self.present.step(actions)

    def times_s(self) -> FloatArray:
        """Return the present time of every episode in seconds, shape ``(E,)``."""
        return self.present.times_s()

    def go_on_to(self, share: float) -> None:
        """Say what share of the training is finished."""
        for environment in self._environments:
            environment.go_on_to(share)

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes."""
        return {"turn": self._turn, "machines": [environment.snapshot() for environment in self._environments]}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._turn = snapshot["turn"]
        for environment, state in zip(self._environments, snapshot["machines"], strict=True):
            environment.restore(state)


class SeveralValidators:
    """Judges a policy on several machines by the means of all measures."""

    def __init__(self, validators: Sequence[Validator]) -> None:
        self._validators = tuple(validators)

    def measures(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
        """Return the means; see `Validator.measures`."""
        all_measures = [validator.measures(weights) for validator in self._validators]
        return {name: float(np.mean([measures[name] for measures in all_measures])) for name in all_measures[0]}
