"""Many environments of policy selection side by side, stepped in one compiled call."""

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, Float32Array, IntArray
from allocopt.cluster.multicore import Machine
from allocopt.envs.policy_selection.episodes import Episodes, Options
from allocopt.envs.policy_selection.setup import Jobs, make_setup
from allocopt.envs.side_by_side import STAY
from allocopt.errors import UsageError
from allocopt.simulator.multicore.setup import Execution


class PolicySelectionVectorEnv(VectorEnv[Float32Array, IntArray, NDArray[Any]]):
    """Independent episodes of `PolicySelectionEnv`.

    The step after the last of an episode ignores its action and begins a new one, with a reward of 0
    (`AutoresetMode.NEXT_STEP`). Job sets are drawn by one generator in the order of the environments.

    Parameters
    ----------
    num_envs
        Number of environments, at least 1.
    machine, jobs, execution, options
        As in `PolicySelectionEnv`.

    Raises
    ------
    UsageError
        If the number of environments is not positive; else see `PolicySelectionEnv`.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(
        self,
        num_envs: int = 1,
        machine: Machine | Path | str | None = None,
        jobs: Jobs | None = None,
        execution: Execution | None = None,
        options: Options | None = None,
    ) -> None:
        if num_envs < 1:
            raise UsageError(f"the number of environments is {num_envs}, must be at least 1")
        self._setup = make_setup(machine, jobs, execution, options)
        self.num_envs = num_envs
        self.single_observation_space = self._setup.observation_space()
        self.single_action_space = self._setup.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._episodes: Episodes | None = None
        self._masks = np.zeros((num_envs, len(self._setup.options.actions)), dtype=np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Begin an episode in every environment.

        Parameters
        ----------
        seed
            Where randomness begins anew; it draws the jobs, and what random policies choose.
        options
            ``jobset``: numbers of job sets, one for all or one per environment, instead of random ones.
        """
        super().reset(seed=seed)
        if self._episodes is None or (self._setup.is_drawn and seed is not None):
            self._episodes = self._setup.episodes(self.num_envs, self.np_random)
            self._episodes.seed(self.np_random)
        elif seed is not None:
            self._episodes.seed(self.np_random)
        jobsets = self._drawn(self._episodes, self.num_envs)
        if options is not None and "jobset" in options:
            jobsets[:] = options["jobset"]
            if jobsets.min() < 0:
                raise UsageError(f"a job set is {jobsets.min()}, must not be negative")
        self._episodes.begin(jobsets)
        return self._look(self._episodes), {"action_mask": self._masks.copy()}

    def step(self, actions: IntArray) -> tuple[Float32Array, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Start waiting jobs by a policy in each environment; where an episode was over, begin a new one instead.

        Parameters
        ----------
        actions
            Numbers of policies, shape ``(num_envs,)``.

        Returns
        -------
        Float32Array, NDArray, NDArray, NDArray, dict
            As `PolicySelectionEnv.step`, everything with the environments in front. What is known at the end of an
            episode only stands in the dictionary if one has ended, with a flag per environment under the same name
            after an underscore.

        Raises
        ------
        UsageError
            If there is no such action, or no episode has begun.
        """
        episodes = self._episodes
        if episodes is None:
            raise UsageError("no episode has begun; call reset first")
        begins = episodes.tally["over"] > 0
        rewards, over = episodes.step(actions)
        over &= ~begins
        invalid = (episodes.tally["invalid"] > 0) & ~begins
        if begins.any():
            jobsets = np.full(self.num_envs, STAY)
            jobsets[begins] = self._drawn(episodes, int(begins.sum()))
            episodes.begin(jobsets)
        observations = self._look(episodes)
        info: dict[str, Any] = {"action_mask": self._masks.copy(), "invalid_action": invalid}
        if over.any():
            for name, values in episodes.metrics().items():
                info[name], info[f"_{name}"] = np.where(over, values, 0.0), over.copy()
        return observations, rewards, over, np.zeros(self.num_envs, dtype=np.bool_), info

    def action_masks(self) -> BoolArray:
        """Return which policies may be chosen, shape ``(num_envs, actions)``."""
        return self._masks.astype(np.bool_)

    def _drawn(self, episodes: Episodes, count: int) -> IntArray:
        """Draw numbers of job sets."""
        return self.np_random.integers(0, len(episodes.jobsets), count)

    def _look(self, episodes: Episodes) -> Float32Array:
        """Return what the agents see, and keep what they may do."""
        seen, legal = episodes.observe()
        self._masks = legal.astype(np.int8)
        return seen
