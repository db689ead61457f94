"""A learner that is validated as it goes on, and keeps the best policy it has had."""

from typing import Any

import numpy as np
from torch import nn

from allocopt.arrays import Float32Array
from learned.dras.several import GroupEnvironment, Judge
from learned.networks.torch_modules import weights_of
from learned.training.loop import Learner


class ValidatedLearner:
    """A learner of DRAS; see `learned.training.loop.Learner`.

    Parameters
    ----------
    learner
        What learns.
    policy
        The module whose weights are validated and kept.
    environment
        Where it learns; it is told how far the training is.
    validator
        Judges policies.
    every
        Updates between two validations.
    """

    def __init__(
        self, learner: Learner, policy: nn.Module, environment: GroupEnvironment, validator: Judge, every: int
    ) -> None:
        self._learner = learner
        self._policy = policy
        self._environment = environment
        self._validator = validator
        self._every = every
        self._updates = 0
        self._measures: dict[str, float] = {}
        self.best: dict[str, Float32Array] = weights_of(policy)
        self.best_score = np.inf

    def update(self, share: float) -> dict[str, float]:
        """Make an update, and at times a validation; see `learned.training.loop.Learner.update`."""
        self._environment.go_on_to(share)
        measures = self._learner.update(share)
        self._updates += 1
        if self._updates % self._every == 0 or not self._measures:
            self._validate()
        return {**measures, **self._measures, "best_score": self.best_score}

    def snapshot(self) -> dict[str, Any]:
        """Return the learner, and the best policy."""
        return {
            "learner": self._learner.snapshot(),
            "best": dict(self.best),
            "best_score": float(self.best_score),
            "updates": self._updates,
            "measures": dict(self._measures),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._learner.restore(snapshot["learner"])
        self.best = dict(snapshot["best"])
        self.best_score = snapshot["best_score"]
        self._updates = snapshot["updates"]
        self._measures = dict(snapshot["measures"])

    def _validate(self) -> None:
        """Judge the policy, and keep it if it is the best so far."""
        weights = weights_of(self._policy)
        self._measures = self._validator.measures(weights)
        if self._measures["score"] < self.best_score:
            self.best_score, self.best = self._measures["score"], weights
