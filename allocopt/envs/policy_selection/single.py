"""The environment in which an agent selects policies, for one episode at a time."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from allocopt.arrays import BoolArray, Float32Array
from allocopt.cluster.multicore import Machine
from allocopt.envs.policy_selection.episodes import Episodes, Options
from allocopt.envs.policy_selection.setup import Jobs, make_setup
from allocopt.errors import UsageError
from allocopt.simulator.multicore.schedule import MulticoreSchedule
from allocopt.simulator.multicore.setup import Execution


class PolicySelectionEnv(gymnasium.Env[Float32Array, np.int64]):
    """An agent names the policy by which waiting jobs start (IRMaSim, section IV).

    The policy is applied to the queue until the job that is next does not fit. Then time goes on until a job waits and
    a core is idle. The episode ends when all jobs have ended.

    Parameters
    ----------
    machine
        The machine, or a platform file; None for the paper's heterogeneous cluster.
    jobs
        One or several sets of jobs of which an episode takes one, or a file of one; None for batches of NPB jobs that
        are drawn by the seed of `reset`.
    execution
        How they run; None for contention.
    options
        Level, reward and policies; None for the defaults.

    Raises
    ------
    UsageError
        If there are no job sets.
    BadFileError
        If a file is not right.
    InvalidProblemError
        If a job can never start; it is named.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(
        self,
        machine: Machine | Path | str | None = None,
        jobs: Jobs | None = None,
        execution: Execution | None = None,
        options: Options | None = None,
    ) -> None:
        self._setup = make_setup(machine, jobs, execution, options)
        self.observation_space: gymnasium.Space[Any] = self._setup.observation_space()
        self.action_space = self._setup.action_space()
        self._episodes = None if self._setup.is_drawn else self._setup.episodes(1, np.random.default_rng(0))
        self._mask = np.zeros(len(self._setup.options.actions), dtype=np.int8)
        self._begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Begin an episode on an idle machine.

        Parameters
        ----------
        seed
            Where randomness begins anew; it draws the jobs, and what random policies choose.
        options
            ``jobset``: number of the job set, instead of a random one.
        """
        super().reset(seed=seed)
        if self._episodes is None or (self._setup.is_drawn and seed is not None):
            self._episodes = self._setup.episodes(1, self.np_random)
        if seed is not None or not self._begun:
            self._episodes.seed(self.np_random)
        jobset = self.np_random.integers(0, len(self._episodes.jobsets), 1)
        if options is not None and "jobset" in options:
            jobset[0] = options["jobset"]
            if jobset[0] < 0:
                raise UsageError(f"the job set is {jobset[0]}, must not be negative")
        self._episodes.begin(jobset)
        self._begun = True
        return self._look(self._episodes), {"action_mask": self._mask.copy()}

    def step(self, action: np.int64) -> tuple[Float32Array, float, bool, bool, dict[str, Any]]:
        """Start waiting jobs by a policy.

        Parameters
        ----------
        action
            Number of the policy, in the order of ``options.actions``.

        Returns
        -------
        Float32Array, float, bool, bool, dict
            The observation; the reward; whether the episode is over; False, as none is cut short; and in the
            dictionary the ``action_mask``, whether void was chosen although nothing would ever have happened again
            (``invalid_action``; the first policy that is not void is taken then), and at the end ``makespan_s``,
            ``energy_j``, ``energy_delay_js`` and ``flow_time_s``.

        Raises
        ------
        UsageError
            If there is no such action, or no episode has begun or it is over.
        """
        episodes = self.episodes
        if episodes.tally[0]["over"]:
            raise UsageError("the episode is over; call reset first")
        rewards, ended = episodes.step(np.asarray([action]))
        observation, over = self._look(episodes), bool(ended[0])
        info = {"action_mask": self._mask.copy(), "invalid_action": bool(episodes.tally[0]["invalid"])}
        if over:
            info |= {name: float(values[0]) for name, values in episodes.metrics().items()}
        return observation, float(rewards[0]), over, False, info

    def action_masks(self) -> BoolArray:
        """Return which policies may be chosen, shape ``(actions,)``; under this name sb3-contrib looks for it."""
        return self._mask.astype(np.bool_)

    def schedule(self) -> MulticoreSchedule:
        """Return when and where the jobs of the episode ran, and the energy.

        Raises
        ------
        SchedulerError
            If not all of them have ended.
        UsageError
            If no episode has begun.
        """
        return self.episodes.schedule(0)

    @property
    def episodes(self) -> Episodes:
        """The episode, and all that is known of it.

        Raises
        ------
        UsageError
            If none has begun.
        """
        if self._episodes is None or not self._begun:
            raise UsageError("no episode has begun; call reset first")
        return self._episodes

    def _look(self, episodes: Episodes) -> Float32Array:
        """Return what the agent sees, and keep what it may do."""
        seen, legal = episodes.observe()
        self._mask = legal[0].astype(np.int8)
        observation: Float32Array = seen[0]
        return observation
