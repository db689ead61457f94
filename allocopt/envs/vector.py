"""Many environments side by side, stepped in one compiled call."""

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from allocopt.arrays import IntArray
from allocopt.envs.batch import N_FEATURES, Observations
from allocopt.envs.episodes import GO_ON, Episodes
from allocopt.envs.rewards import BoundedSlowdown, Reward
from allocopt.envs.setup import BackfillName, Setup
from allocopt.errors import UsageError
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.traces.workload import Workload

Flags = NDArray[np.bool_]


class BatchSchedulingVectorEnv(VectorEnv[Observations, IntArray, NDArray[Any]]):
    """Independent episodes of `BatchSchedulingEnv` on the same workload.

    The step after the last of an episode ignores its action and begins a new one, with a reward of 0
    (`AutoresetMode.NEXT_STEP`). Episodes are drawn by one generator in the order of the environments.

    Parameters
    ----------
    num_envs
        Number of environments, at least 1.
    workload, processors, n_jobs, window, backfill, reward, rules
        As in `BatchSchedulingEnv`.

    Raises
    ------
    UsageError, BadFileError
        If the number of environments is not positive; else see `Setup`.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | Path | str | None = None,
        processors: int | None = None,
        n_jobs: int = 256,
        window: int = 128,
        backfill: BackfillName = "easy",
        reward: Reward | None = None,
        rules: Rules | None = None,
    ) -> None:
        if num_envs < 1:
            raise UsageError(f"the number of environments is {num_envs}, must be at least 1")
        reward = BoundedSlowdown() if reward is None else reward
        self._setup = Setup(workload, processors, n_jobs, window, backfill, reward, rules or Rules())
        self.num_envs = num_envs
        self.single_observation_space = Box(0.0, 1.0, (window, N_FEATURES), np.float32)
        self.single_action_space = Discrete(window)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._window = window
        self._episodes: Episodes | None = None
        self._masks = np.zeros((num_envs, window), dtype=np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every environment.

        Parameters
        ----------
        seed
            Where randomness begins anew; it draws the first jobs of the episodes, and the workload if none was given.
        options
            ``offset``: numbers of the first jobs in the workload, one for all or one per environment, instead of
            random ones.
        """
        super().reset(seed=seed)
        if self._episodes is None or (seed is not None and self._setup.is_drawn):
            self._episodes = Episodes(self._setup, self.num_envs, self.np_random)
        offsets = self._episodes.offsets(self.num_envs, self.np_random)
        if options is not None and "offset" in options:
            offsets[:] = options["offset"]
            for offset in (offsets.min(), offsets.max()):
                self._episodes.check_offset(int(offset))
        observations, self._masks = self._episodes.step(np.zeros_like(offsets), offsets)
        return observations, {"action_mask": self._masks.copy()}

    def step(self, actions: IntArray) -> tuple[Observations, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Serve the job in a slot of each window; where an episode was over, begin a new one instead.

        Parameters
        ----------
        actions
            The slots, in ``0 .. window - 1``, shape ``(num_envs,)``.

        Returns
        -------
        Observations, NDArray, NDArray, NDArray, dict
            As `BatchSchedulingEnv.step`, everything with the environments in front. What is known at the end of an
            episode only stands in the dictionary if one has ended, with a flag per environment under the same name
            after an underscore.

        Raises
        ------
        UsageError
            If there is no such slot, or no episode has begun.
        """
        if self._episodes is None:
            raise UsageError("no episode has begun; call reset first")
        slots = self._checked(actions)
        tally = self._episodes.tally
        observations, self._masks = self._episodes.step(slots, self._offsets(self._episodes))
        over = tally["over"] > 0
        info: dict[str, Any] = {"action_mask": self._masks.copy(), "invalid_action": tally["invalid"] > 0}
        if over.any():
            for name, values in self._episodes.results().items():
                info[name], info[f"_{name}"] = np.where(over, values, 0.0), over.copy()
        return observations, tally["reward"].copy(), over, np.zeros(self.num_envs, dtype=np.bool_), info

    def action_masks(self) -> Flags:
        """Return which slots are occupied, shape ``(num_envs, window)``."""
        return self._masks.astype(np.bool_)

    def schedule(self, environment: int) -> Schedule:
        """Return when the jobs of an environment's episode started and end; see `BatchSchedulingEnv.schedule`.

        Raises
        ------
        UsageError
            If no episode has begun.
        """
        if self._episodes is None:
            raise UsageError("no episode has begun; call reset first")
        return self._episodes.schedule(environment)

    def _checked(self, actions: IntArray) -> IntArray:
        """Return the actions as the kernels take them."""
        slots = np.ascontiguousarray(actions, dtype=np.int64)
        if slots.shape != (self.num_envs,):
            raise UsageError(f"the actions have shape {slots.shape}, must have {(self.num_envs,)}")
        if slots.min() < 0 or slots.max() >= self._window:
            raise UsageError(f"the actions are {slots.min()} .. {slots.max()}, must be within 0 .. {self._window - 1}")
        return slots

    def _offsets(self, episodes: Episodes) -> IntArray:
        """Return the first jobs of new episodes where the last ones are over, else ``GO_ON``."""
        offsets = np.full(self.num_envs, GO_ON)
        over = episodes.tally["over"] > 0
        ended = int(over.sum())
        if ended:
            offsets[over] = episodes.offsets(ended, self.np_random)
        return offsets
