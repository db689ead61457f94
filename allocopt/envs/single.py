"""The environment in which an agent schedules the jobs of one episode at a time."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from allocopt.envs.asked import whole_number
from allocopt.envs.batch import N_FEATURES, Observations
from allocopt.envs.episodes import GO_ON, Episodes
from allocopt.envs.rewards import BoundedSlowdown, Reward
from allocopt.envs.setup import BackfillName, Setup
from allocopt.errors import UsageError
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.traces.workload import Workload


class BatchSchedulingEnv(gymnasium.Env[Observations, np.int64]):
    """An agent chooses which waiting job starts next.

    At every step it chooses a slot of the window, which shows the first waiting jobs in the order of their arrival.
    That job starts at once if it fits; else time goes on until it does, and other jobs may be backfilled meanwhile.
    Then time goes on until a job waits. The episode ends when every job has started.

    Parameters
    ----------
    workload
        The jobs of which an episode takes some, or a file of them; None for jobs of the Lublin-Feitelson model, drawn
        by the seed of `reset`.
    processors
        Size of the machine; None for that of the workload's, 256 for the model's.
    n_jobs
        Consecutive jobs of an episode, at least 1.
    window
        Waiting jobs among which the agent chooses, at least 1.
    backfill
        ``easy``: while the chosen job waits for processors, others start if they do not delay it by the estimates;
        ``none``: no other does.
    reward
        What the agent is rewarded for; `BoundedSlowdown` if None.
    rules
        How events at the same time are taken, whether jobs are killed and wait for others; None for the defaults.

    Raises
    ------
    UsageError, BadFileError
        See `Setup`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(
        self,
        workload: Workload | Path | str | None = None,
        processors: int | None = None,
        n_jobs: int = 256,
        window: int = 128,
        backfill: BackfillName = "easy",
        reward: Reward | None = None,
        rules: Rules | None = None,
    ) -> None:
        reward = BoundedSlowdown() if reward is None else reward
        self._setup = Setup(workload, processors, n_jobs, window, backfill, reward, rules or Rules())
        self.observation_space = Box(0.0, 1.0, (window, N_FEATURES), np.float32)
        self.action_space = Discrete(window)
        self._window = window
        self._episodes: Episodes | None = None
        self._mask = np.zeros(window, dtype=np.int8)
        self._slot = np.zeros(1, dtype=np.int64)
        self._go_on = np.full(1, GO_ON)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed
            Where randomness begins anew; it draws the first job of the episode, and the workload if none was given.
        options
            ``offset``: number of the first job in the workload, instead of a random one.
        """
        super().reset(seed=seed)
        if self._episodes is None or (seed is not None and self._setup.is_drawn):
            self._episodes = Episodes(self._setup, 1, self.np_random)
        offsets = self._episodes.offsets(1, self.np_random)
        if options is not None and "offset" in options:
            offsets[0] = self._episodes.check_offset(options["offset"])
        observations, masks = self._episodes.step(self._slot, offsets)
        self._mask = masks[0]
        return observations[0], {"action_mask": masks[0].copy()}

    def step(self, action: np.int64) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        """Serve the job in a slot of the window; the first one, if nobody waits there.

        Parameters
        ----------
        action
            The slot, in ``0 .. window - 1``.

        Returns
        -------
        Observations, float, bool, bool, dict
            The observation; the reward; whether the episode is over; False, as none is cut short; and in the
            dictionary the ``action_mask``, whether the slot was empty (``invalid_action``), and at the end of the
            episode ``mean_bounded_slowdown``, ``mean_wait_s`` and ``makespan_s``.

        Raises
        ------
        UsageError
            If there is no such slot, or no episode has begun or it is over.
        """
        episodes = self._running()
        self._slot[0] = whole_number("action", action, 0, self._window - 1)
        observations, masks = episodes.step(self._slot, self._go_on)
        self._mask = masks[0]
        tally = episodes.tally[0]
        over = bool(tally["over"])
        info = {"action_mask": self._mask.copy(), "invalid_action": bool(tally["invalid"])}
        if over:
            info |= {name: float(values[0]) for name, values in episodes.results().items()}
        return observations[0], float(tally["reward"]), over, False, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which slots are occupied, shape ``(window,)``; under this name sb3-contrib looks for it."""
        return self._mask.astype(np.bool_)

    def schedule(self) -> Schedule:
        """Return when the jobs of the episode started and end, with times from its first submission on.

        Times are NaN where they are not known yet.

        Raises
        ------
        UsageError
            If no episode has begun.
        """
        if self._episodes is None:
            raise UsageError("no episode has begun; call reset first")
        return self._episodes.schedule(0)

    def _running(self) -> Episodes:
        """Return the episode, if it is not over."""
        if self._episodes is None:
            raise UsageError("no episode has begun; call reset first")
        if self._episodes.tally[0]["over"]:
            raise UsageError("the episode is over; call reset first")
        return self._episodes
