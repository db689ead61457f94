"""Gymnasium environments over jobsets: one episode at a time, or many side by side in one compiled call."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.envs.asked import jobsets_of, whole_number
from allocopt.envs.side_by_side import STAY
from allocopt.errors import UsageError


class Episodes(Protocol):
    """Episodes side by side, each over a jobset; see `allocopt.envs.side_by_side.SideBySide`."""

    @property
    def tally(self) -> NDArray[np.void]:
        """Where each stands; ``over`` and ``invalid`` among others."""

    @property
    def n_jobsets(self) -> int:
        """Number of jobsets."""

    def begin(self, jobsets: IntArray) -> None:
        """Begin episodes."""

    def metrics(self) -> dict[str, FloatArray]:
        """Return what the episodes have come to, by name."""


E = TypeVar("E", bound=Episodes)
J = TypeVar("J")
Seen = TypeVar("Seen")
Act = TypeVar("Act")


@dataclass(frozen=True, slots=True)
class Setup(ABC, Generic[J, E, Seen]):
    """An environment, but for chance.

    Parameters
    ----------
    jobsets
        The jobsets of which an episode takes one; None for drawn ones.

    Raises
    ------
    UsageError
        If there are none.
    """

    jobsets: tuple[J, ...] | None

    def __post_init__(self) -> None:
        if self.jobsets is not None and not self.jobsets:
            raise UsageError("there are no jobsets; give some, or None for drawn ones")

    @property
    def is_drawn(self) -> bool:
        """Whether the jobsets are drawn."""
        return self.jobsets is None

    @abstractmethod
    def episodes(self, count: int, rng: np.random.Generator) -> E:
        """Return episodes that have not begun; the generator draws jobsets where none are given."""

    @abstractmethod
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of what an agent sees."""

    @abstractmethod
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of actions."""

    @abstractmethod
    def look(self, episodes: E) -> tuple[Seen, NDArray[np.int8]]:
        """Return what agents see and what they may do, the episodes in front."""

    @abstractmethod
    def step(self, episodes: E, actions: NDArray[Any]) -> tuple[FloatArray, BoolArray]:
        """Do what agents choose; return rewards, and which episodes have just ended.

        Raises
        ------
        UsageError
            If there is no such action.
        """

    def told(self, episodes: E) -> dict[str, NDArray[Any]]:
        """Return what else an agent is told at every step, the episodes in front."""
        return {}

    def reseed(self, episodes: E, rng: np.random.Generator) -> None:
        """Let what is random within episodes begin anew; does nothing where nothing is."""


class JobsetEnv(gymnasium.Env[Seen, Act], Generic[Seen, Act, E]):
    """An environment of one episode at a time.

    Parameters
    ----------
    setup
        What is in it.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(self, setup: Setup[Any, E, Seen]) -> None:
        self._setup = setup
        self.observation_space: gymnasium.Space[Any] = setup.observation_space()
        self.action_space: gymnasium.Space[Any] = setup.action_space()
        # Jobs that do not fit are told now, not at the first reset.
        self._episodes = None if setup.is_drawn else setup.episodes(1, np.random.default_rng(0))
        self._mask: NDArray[np.int8] = np.empty(0, dtype=np.int8)
        self._begun = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed
            Where randomness begins anew.
        options
            ``jobset``: number of the jobset, instead of a random one.

        Raises
        ------
        UsageError
            If there is no such jobset.
        """
        super().reset(seed=seed)
        if self._episodes is None or (self._setup.is_drawn and seed is not None):
            self._episodes = self._setup.episodes(1, self.np_random)
        if seed is not None or not self._begun:
            self._setup.reseed(self._episodes, self.np_random)
        self._episodes.begin(_jobsets(options, self._episodes, 1, self.np_random))
        self._begun = True
        return self._look(self._episodes), self._info(self._episodes)

    def step(self, action: Act) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Do what the agent chooses.

        Parameters
        ----------
        action
            One of ``action_space``.

        Returns
        -------
        Seen, float, bool, bool, dict
            The observation; the reward; whether the episode is over; False, as none is cut short; and in the
            dictionary the ``action_mask``, whether the action could not be done (``invalid_action``), and at the end
            what the episode has come to.

        Raises
        ------
        UsageError
            If there is no such action, or no episode has begun or it is over.
        """
        episodes = self.running
        rewards, ended = self._setup.step(episodes, np.asarray(action)[np.newaxis])
        observation, over = self._look(episodes), bool(ended[0])
        info = self._info(episodes) | {"invalid_action": bool(episodes.tally[0]["invalid"])}
        if over:
            info |= {name: float(values[0]) for name, values in episodes.metrics().items()}
        return observation, float(rewards[0]), over, False, info

    def action_masks(self) -> BoolArray:
        """Return what may be chosen, as ``action_mask``; under this name sb3-contrib looks for it."""
        return self._mask.astype(np.bool_)

    @property
    def episodes(self) -> E:
        """The episode, and all that is known of it.

        Raises
        ------
        UsageError
            If none has begun.
        """
        if self._episodes is None or not self._begun:
            raise UsageError("no episode has begun; call reset first")
        return self._episodes

    @property
    def running(self) -> E:
        """The same.

        Raises
        ------
        UsageError
            If none has begun, or it is over.
        """
        episodes = self.episodes
        if episodes.tally[0]["over"]:
            raise UsageError("the episode is over; call reset first")
        return episodes

    def _info(self, episodes: E) -> dict[str, Any]:
        """Return what is told at every step."""
        told = {name: values[0].item() for name, values in self._setup.told(episodes).items()}
        return {"action_mask": self._mask.copy(), **told}

    def _look(self, episodes: E) -> Seen:
        """Return what the agent sees, and keep what it may do."""
        seen, masks = self._setup.look(episodes)
        self._mask = masks[0]
        first: Seen = _first_of(seen)
        return first


class JobsetVectorEnv(VectorEnv[Seen, Any, NDArray[Any]], Generic[Seen, E]):
    """Independent environments, stepped together.

    The step after the last of an episode ignores its action and begins a new one, with a reward of 0
    (`AutoresetMode.NEXT_STEP`). Jobsets are drawn by one generator in the order of the environments.

    Parameters
    ----------
    num_envs
        Number of environments, at least 1.
    setup
        What is in each.

    Raises
    ------
    UsageError
        If the number of environments is not positive.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(self, num_envs: int, setup: Setup[Any, E, Seen]) -> None:
        self.num_envs = whole_number("number of environments", num_envs, 1)
        self._setup = setup
        self.single_observation_space = setup.observation_space()
        self.single_action_space = setup.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._episodes: E | None = None
        self._masks: NDArray[np.int8] = np.empty((num_envs, 0), dtype=np.int8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode in every environment.

        Parameters
        ----------
        seed
            Where randomness begins anew.
        options
            ``jobset``: numbers of jobsets, one for all or one per environment, instead of random ones.

        Raises
        ------
        UsageError
            If there is no such jobset.
        """
        super().reset(seed=seed)
        is_first = self._episodes is None
        if self._episodes is None or (self._setup.is_drawn and seed is not None):
            self._episodes = self._setup.episodes(self.num_envs, self.np_random)
        if seed is not None or is_first:
            self._setup.reseed(self._episodes, self.np_random)
        self._episodes.begin(_jobsets(options, self._episodes, self.num_envs, self.np_random))
        return self._look(self._episodes), self._info(self._episodes)

    def step(self, actions: NDArray[Any]) -> tuple[Seen, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Do what every agent chooses; where an episode was over, begin a new one instead.

        Parameters
        ----------
        actions
            One per environment.

        Returns
        -------
        Seen, NDArray, NDArray, NDArray, dict
            As of one environment, everything with the environments in front. What is known at the end of an episode
            only stands in the dictionary if one has ended, with a flag per environment under the same name after an
            underscore.

        Raises
        ------
        UsageError
            If there is no such action, or no episode has begun.
        """
        episodes = self._episodes
        if episodes is None:
            raise UsageError("no episode has begun; call reset first")
        begins = episodes.tally["over"] > 0
        rewards, over = self._setup.step(episodes, actions)
        over &= ~begins
        invalid = (episodes.tally["invalid"] > 0) & ~begins
        if begins.any():
            jobsets = np.full(self.num_envs, STAY)
            jobsets[begins] = _jobsets(None, episodes, int(begins.sum()), self.np_random)
            episodes.begin(jobsets)
        observations = self._look(episodes)
        info = self._info(episodes) | {"invalid_action": invalid}
        if over.any():
            for name, values in episodes.metrics().items():
                info[name], info[f"_{name}"] = np.where(over, values, 0.0), over.copy()
        return observations, rewards, over, np.zeros(self.num_envs, dtype=np.bool_), info

    def action_masks(self) -> BoolArray:
        """Return what may be chosen in each environment, as ``action_mask``."""
        return self._masks.astype(np.bool_)

    def _info(self, episodes: E) -> dict[str, Any]:
        """Return what is told at every step."""
        return {"action_mask": self._masks.copy(), **self._setup.told(episodes)}

    def _look(self, episodes: E) -> Seen:
        """Return what the agents see, and keep what they may do."""
        seen, self._masks = self._setup.look(episodes)
        return seen


def _jobsets(options: dict[str, Any] | None, episodes: Episodes, count: int, rng: np.random.Generator) -> IntArray:
    """Return the jobsets that a reset names, or random ones."""
    return jobsets_of(options, rng.integers(0, episodes.n_jobsets, count), episodes.n_jobsets)


def _first_of(seen: Any) -> Any:
    """Return what the agent of the first episode sees."""
    return {name: values[0] for name, values in seen.items()} if isinstance(seen, dict) else seen[0]
