"""Trained agents of CuSH: what a file of weights holds."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from allocopt.arrays import Float32Array
from allocopt.envs.cush.observation import n_features
from allocopt.errors import BadFileError
from learned.cush.acting import Agent
from learned.cush.networks import FIXED, JOBS, POLICIES, parts_of
from learned.cush.selectors import CompactSelector, LearnedPolicies, PolicySelector, fixed_policies
from learned.networks.files import Card
from learned.networks.shipped import find_weights, read_weights_of

NAME = "cush"


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What a training wrote.

    Parameters
    ----------
    weights
        Parameters of both selectors by name.
    card
        How they came about.
    """

    weights: dict[str, Float32Array]
    card: Card

    @property
    def queue(self) -> int:
        """Slots of the queue that it was trained with."""
        return int(self.card.settings["queue"])

    @property
    def traits(self) -> int:
        """Traits of the jobs that it was trained with."""
        return int(self.weights[f"{JOBS}actor.0.weight"].shape[1]) - n_features(0)

    def agent(self) -> Agent:
        """Return what acts; each caller needs its own."""
        return Agent(CompactSelector.of(parts_of(self.weights, JOBS)), self.policies())

    def policies(self) -> PolicySelector:
        """Return the policy selector, or what stood in its place."""
        how = str(self.card.settings["policies"])
        return fixed_policies(how) if how in FIXED else LearnedPolicies(parts_of(self.weights, POLICIES))


def load_trained(weights: str) -> Trained:
    """Read an agent.

    Parameters
    ----------
    weights
        One of `learned.networks.shipped.shipped_weights`, or a file that a training wrote.

    Raises
    ------
    UsageError
        If there is no such file.
    BadFileError
        If it cannot be read, or is of another agent.
    """
    path = find_weights(NAME, weights)
    return _load(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _load(path: Path, changed_ns: int) -> Trained:
    """Read a file, once as long as it does not change."""
    weights, card = read_weights_of(NAME, path)
    if card.network != "compact":
        raise BadFileError(f"{path}: its job selector is {card.network!r}; only compact ones act without torch")
    trained = Trained(weights, card)
    try:
        trained.agent()
        return trained
    except (ValueError, KeyError, TypeError) as error:
        raise BadFileError(f"{path}: {error}") from None
