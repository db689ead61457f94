"""A learner that also tells which policies were named, and what the episodes came to."""

from collections.abc import Sequence
from typing import Any

from learned.irmasim.environment import WholeEpisodes
from learned.training.loop import Learner

SHARE = "share of "
"""How the columns of a learning curve begin that tell how often each policy was named."""


class WatchedLearner:
    """A learner of policies; see `learned.training.loop.Learner`.

    Parameters
    ----------
    learner
        What learns.
    environment
        Where it learns, an episode in every update.
    names
        Names of the policies.
    """

    def __init__(self, learner: Learner, environment: WholeEpisodes, names: Sequence[str]) -> None:
        self._learner = learner
        self._environment = environment
        self._names = tuple(names)
        self._episodes = 0

    def update(self, share: float) -> dict[str, float]:
        """Make an update; see `learned.training.loop.Learner.update`."""
        measures = self._learner.update(share)
        self._episodes += self._environment.n_environments
        shares = zip(self._names, self._environment.shares.tolist(), strict=True)
        return {
            "episodes": float(self._episodes),
            **measures,
            # What is learned from is relative to the other episodes, and 0 on average.
            "mean_return": float(self._environment.totals.mean()),
            **{SHARE + name: value for name, value in shares},
        }

    def snapshot(self) -> dict[str, Any]:
        """Return the learner, and the number of episodes."""
        return {"learner": self._learner.snapshot(), "episodes": self._episodes}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._learner.restore(snapshot["learner"])
        self._episodes = snapshot["episodes"]
