"""The CuSH environment for one episode at a time."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, IntArray
from allocopt.envs.asked import jobsets_of
from allocopt.envs.cush.episodes import Episodes, Options
from allocopt.envs.cush.jobsets import JobSet, Machine, Recipe
from allocopt.envs.cush.setup import MachineName, Observation, checked, make_setup, masks_of
from allocopt.errors import UsageError
from allocopt.simulator.locality import PenaltyTable


class CushEnv(gymnasium.Env[Observation, IntArray]):
    """An agent chooses a job of the queue, and whether it is allocated depth-first or breadth-first.

    Time is frozen until it chooses to do nothing, or a job that cannot start; then a timestep passes. The episode ends
    when all jobs have ended.

    Parameters
    ----------
    machine
        ``sierra`` or ``summit``, with 128 nodes, or a cluster of one's own.
    jobsets
        The job sets of which an episode takes one; None for some that are drawn by the seed of `reset`.
    table
        The locality model of drawn job sets, in timesteps; None for the one that comes with the package.
    recipe
        How they are drawn; None for the paper's.
    options
        Queue, horizon, reward and observation; None for images.

    Raises
    ------
    UsageError
        If a value is out of range, or a job asks for more than the machine has.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(
        self,
        machine: Machine | MachineName = "sierra",
        jobsets: Sequence[JobSet] | None = None,
        table: PenaltyTable | None = None,
        recipe: Recipe | None = None,
        options: Options | None = None,
    ) -> None:
        self._setup = make_setup(machine, jobsets, table, recipe, options)
        self.observation_space: gymnasium.Space[Any] = self._setup.observation_space()
        self.action_space = self._setup.action_space()
        self._episodes = None if self._setup.is_drawn else self._setup.episodes(1, np.random.default_rng(0))
        self._mask = np.zeros(self._setup.options.n_actions + 2, dtype=np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode on an empty cluster.

        Parameters
        ----------
        seed
            Where randomness begins anew; it draws the job set.
        options
            ``jobset``: number of the job set, instead of a random one.
        """
        super().reset(seed=seed)
        if self._episodes is None or (self._setup.is_drawn and seed is not None):
            self._episodes = self._setup.episodes(1, self.np_random)
        jobset = self.np_random.integers(0, len(self._episodes.jobsets), 1)
        self._episodes.begin(jobsets_of(options, jobset, len(self._episodes.jobsets)))
        observation = self._look(self._episodes)
        return observation, {"action_mask": self._mask.copy()}

    def step(self, action: IntArray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Start a job, or let a timestep pass.

        Parameters
        ----------
        action
            The slot, or Q to do nothing, and the `Policy`, shape ``(2,)``.

        Returns
        -------
        dict, float, bool, bool, dict
            The observation; the reward; whether the episode is over; False, as none is cut short; and in the
            dictionary the ``action_mask``, whether the slot named no job that could start (``invalid_action``), and at
            the end the means ``normalized_turnaround``, ``wait``, ``turnaround``, ``service`` and ``penalty`` and the
            total ``rewards`` of the paper.

        Raises
        ------
        UsageError
            If there is no such action, or no episode has begun or it is over.
        """
        episodes = self.episodes
        if episodes.tally[0]["over"]:
            raise UsageError("the episode is over; call reset first")
        slots, policies = checked(np.asarray(action)[np.newaxis], 1, self._setup.options)
        rewards, ended = episodes.step(slots, policies)
        observation, over = self._look(episodes), bool(ended[0])
        info = {"action_mask": self._mask.copy(), "invalid_action": bool(episodes.tally[0]["invalid"])}
        if over:
            info |= {name: float(values[0]) for name, values in episodes.metrics().items()}
        return observation, float(rewards[0]), over, False, info

    def action_masks(self) -> BoolArray:
        """Return which slots, and then which policies, may be chosen, shape ``(Q + 3,)``; sb3-contrib looks for it."""
        return self._mask.astype(np.bool_)

    @property
    def episodes(self) -> Episodes:
        """The episode, and all that is known of it.

        Raises
        ------
        UsageError
            If none has begun.
        """
        if self._episodes is None or (self._episodes.tally[0]["arrived"] == 0 and self._episodes.tally[0]["over"]):
            raise UsageError("no episode has begun; call reset first")
        return self._episodes

    def _look(self, episodes: Episodes) -> dict[str, NDArray[Any]]:
        """Return what the agent sees, and keep what it may do."""
        seen, legal = self._setup.look(episodes)
        self._mask = masks_of(legal)[0]
        return {name: values[0] for name, values in seen.items()}
