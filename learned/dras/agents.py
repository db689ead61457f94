"""Trained agents of DRAS in memory: what a file of weights holds, read once, and what it answers."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from allocopt.arrays import BoolArray, Float32Array
from allocopt.envs.dras.reward import Weights
from allocopt.errors import BadFileError
from learned.dras.acting import best_actions
from learned.inference.slots import PackedSlots, pack_slots
from learned.networks.shipped import find_weights, read_weights_of


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """A trained compact network.

    Parameters
    ----------
    weights
        Its parameters by name.
    window
        Waiting jobs among which it chooses.
    reward
        What it was trained for.
    """

    weights: dict[str, Float32Array]
    window: int
    reward: Weights

    def policy(self) -> "GreedyPolicy":
        """Return what takes the choices that the agent likes best."""
        return GreedyPolicy(pack_slots(self.weights))


@dataclass(slots=True, eq=False)
class GreedyPolicy:
    """Takes the slot that a compact network likes best; see `allocopt.envs.dras.selectors.Policy`.

    Parameters
    ----------
    network
        The network; another one may be put in its place.
    """

    network: PackedSlots

    def __call__(self, observation: Float32Array, legal: BoolArray) -> int:
        """Return the slot."""
        action = np.zeros(1, dtype=np.int64)
        values = np.zeros(len(legal), dtype=np.float32)
        best_actions(self.network, observation[np.newaxis], legal[np.newaxis], values, action)
        return int(action[0])


def load_agent(name: str, weights: str) -> Agent:
    """Read an agent.

    Parameters
    ----------
    name
        Name of the training, such as ``dras-ppo``.
    weights
        One of `learned.networks.shipped.shipped_weights`, or a file that a training wrote.

    Raises
    ------
    UsageError
        If there is no such file.
    BadFileError
        If it cannot be read, or is of another agent.
    """
    path = find_weights(name, weights)
    return _load(name, path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _load(name: str, path: Path, changed_ns: int) -> Agent:
    """Read a file, once as long as it does not change."""
    weights, card = read_weights_of(name, path)
    try:
        pack_slots(weights)
        return Agent(weights, int(card.settings["window"]), Weights(**card.settings["reward"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadFileError(f"{path}: {error}") from None
