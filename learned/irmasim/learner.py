"""A learner that also tells which policies were named, what the episodes came to, and keeps the best actor."""

from typing import Any

import numpy as np
from torch import nn

from allocopt.arrays import Float32Array
from learned.irmasim.environment import WholeEpisodes
from learned.irmasim.networks import most_preferred
from learned.networks.torch_modules import weights_of
from learned.training.loop import Learner

SHARE = "share of "
"""How the columns of a learning curve begin that tell how often each policy was named."""


EVERY = 10
"""Updates between two looks at what the actor comes to that always takes what it prefers."""


class WatchedLearner:
    """A learner of policies; see `learned.training.loop.Learner`.

    Parameters
    ----------
    learner
        What learns.
    actor
        The module whose weights are kept when they are the best so far.
    environment
        Where it learns, an episode in every update.
    """

    def __init__(self, learner: Learner, actor: nn.Module, environment: WholeEpisodes) -> None:
        self._learner = learner
        self._actor = actor
        self._environment = environment
        self._updates = 0
        self.best: dict[str, Float32Array] = weights_of(actor)
        self.best_score = -np.inf

    def update(self, share: float) -> dict[str, float]:
        """Make an update; see `learned.training.loop.Learner.update`."""
        measures = self._learner.update(share)
        self._updates += 1
        if self._updates % EVERY == 0 or self._updates == 1:
            self._look()
        names, shares = self._environment.episodes.options.actions, self._environment.shares.tolist()
        return {
            "episodes": float(self._updates * self._environment.n_environments),
            **measures,
            # What is learned from is relative to the other episodes, and 0 on average.
            "mean_return": float(self._environment.totals.mean()),
            "best_score": float(self.best_score),
            **{SHARE + name: value for name, value in zip(names, shares, strict=True)},
        }

    def snapshot(self) -> dict[str, Any]:
        """Return the learner, and the best actor."""
        return {
            "learner": self._learner.snapshot(),
            "updates": self._updates,
            "best": dict(self.best),
            "best_score": float(self.best_score),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._learner.restore(snapshot["learner"])
        self._updates = snapshot["updates"]
        self.best = snapshot["best"]
        self.best_score = snapshot["best_score"]

    def last(self) -> dict[str, Float32Array]:
        """Return the weights of the actor as it is now, not those of the best."""
        return weights_of(self._actor)

    def _look(self) -> None:
        """Keep the actor if it is the best so far."""
        weights = self.last()
        score = self._environment.score(lambda seen, legal: most_preferred(weights, seen, legal))
        if score > self.best_score:
            self.best, self.best_score = weights, score
