"""The environment in which an agent schedules at two levels, one episode at a time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.asked import jobsets_of, whole_number
from allocopt.envs.dras.batch import Observations
from allocopt.envs.dras.describe import MOST, MOST_DAYS
from allocopt.envs.dras.episodes import Episodes, ObservationName, Options
from allocopt.envs.dras.rewards import CAPABILITY, Weights
from allocopt.errors import UsageError
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.two_level import PAPER_WINDOW, Choice
from allocopt.simulator.two_level_rules import Reservations
from allocopt.traces.lublin import lublin_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

DRAWN_PROCESSORS, DRAWN_JOBS = 256, 256
"""Machine and jobs of an episode where no workload is given."""

ReservationName = Literal["kept", "renewed", "none"]


class TwoLevelEnv(gymnasium.Env[Observations, np.int64]):
    """An agent chooses which jobs start, which one is reserved, and which are backfilled.

    Parameters
    ----------
    workload
        The jobs of an episode, or a file of them, or several of these of which each episode takes one; None for jobs
        of the Lublin-Feitelson model, drawn by the seed of `reset`.
    processors
        Number of nodes N; None for that of the workload's machine, 256 for the model's.
    window
        Slots W, at least 1.
    reservations
        ``kept``: a reservation stands until its job starts; ``renewed``: every scheduling instance begins at level 1;
        ``none``: only jobs that fit may be chosen.
    reward
        What the agent is rewarded for; Eq. 1 if None.
    observation
        ``slots`` or ``state``; see `Options`.
    can_end
        Whether action W ends the scheduling instance.
    rules
        How events at the same time are taken, whether jobs are killed and wait for others; None for the defaults.

    Raises
    ------
    UsageError
        If a value is not one of these, or a job is larger than the machine.
    BadFileError
        If a file cannot be read.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - so Gymnasium declares it

    def __init__(
        self,
        workload: Workload | Path | str | Sequence[Workload | Path | str] | None = None,
        processors: int | None = None,
        window: int = PAPER_WINDOW,
        reservations: ReservationName = "kept",
        reward: Weights | None = None,
        observation: ObservationName = "slots",
        can_end: bool = False,
        rules: Rules | None = None,
    ) -> None:
        if reservations.upper() not in Reservations.__members__:
            known = ", ".join(kind.lower() for kind in Reservations.__members__)
            raise UsageError(f"reservations is {reservations!r}, must be one of {known}")
        kind = Reservations[reservations.upper()]
        self._options = Options(
            whole_number("window", window, 1),
            kind,
            CAPABILITY if reward is None else reward,
            observation,
            can_end,
            rules=Rules() if rules is None else rules,
        )
        self._jobsets = _read(workload)
        self._machine = _machine(self._jobsets, processors)
        most = MOST if observation == "slots" else MOST_DAYS
        self.observation_space = Box(0.0, most, self._options.shape(self._machine), np.float32)
        self.action_space = Discrete(self._options.n_actions)
        self._episodes = Episodes(self._jobsets, self._machine, 1, self._options) if self._jobsets else None
        self._mask = np.zeros(self._options.n_actions, dtype=np.int8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode on an empty machine.

        Parameters
        ----------
        seed
            Where randomness begins anew; it draws which jobs the episode takes.
        options
            ``jobset``: number of the workload, instead of a random one.
        """
        super().reset(seed=seed)
        if not self._jobsets and (self._episodes is None or seed is not None):
            drawn = lublin_workload(DRAWN_JOBS, self._machine, self.np_random)
            self._episodes = Episodes([drawn], self._machine, 1, self._options)
        assert self._episodes is not None, "there are jobs, given or drawn"
        jobset = self.np_random.integers(0, len(self._episodes.jobsets), 1)
        self._episodes.begin(jobsets_of(options, jobset, len(self._episodes.jobsets)))
        return self._look(self._episodes), self._info(self._episodes)

    def step(self, action: np.int64) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        """Choose the job in a slot; the first one that may be chosen, if that in the slot may not.

        Parameters
        ----------
        action
            The slot, in ``0 .. W - 1``, or W to end the instance.

        Returns
        -------
        Observations, float, bool, bool, dict
            The observation; the reward; whether the episode is over; False, as none is cut short; and in the
            dictionary the ``action_mask``, the ``level``, whether the action was not legal (``invalid_action``), and
            at the end of the episode ``mean_bounded_slowdown``, ``mean_wait_s``, ``longest_wait_s`` and
            ``makespan_s``.

        Raises
        ------
        UsageError
            If there is no such action, or no episode has begun or it is over.
        """
        episodes = self._running()
        slot = whole_number("action", action, 0, self._options.n_actions - 1)
        rewards, ended = episodes.step(np.array([slot]))
        observation = self._look(episodes)
        info = self._info(episodes) | {"invalid_action": bool(episodes.tally["invalid"][0])}
        if ended[0]:
            info |= _results(episodes)
        return observation, float(rewards[0]), bool(ended[0]), False, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions are legal; under this name sb3-contrib looks for it."""
        return self._mask.astype(np.bool_)

    def choice(self) -> Choice:
        """Return what is to be chosen as selectors are asked, so that they can answer here too.

        Raises
        ------
        UsageError
            If no episode has begun, or it is over.
        """
        return self._running().choice(0)

    def schedule(self) -> Schedule:
        """Return when the jobs of the episode started and end; NaN where that is not known yet."""
        return self._begun().schedule(0)

    def modes(self) -> IntArray:
        """Return the `allocopt.simulator.two_level_rules.Mode` of each job, shape ``(n,)``."""
        return self._begun().modes(0)

    def promised(self) -> FloatArray:
        """Return the time each job was promised last, in seconds, infinite where it was not; shape ``(n,)``."""
        return self._begun().promised(0)

    def _look(self, episodes: Episodes) -> Observations:
        """Observe, and keep the mask, which is 0 once the episode is over."""
        observations, legal = episodes.observe()
        self._mask = (legal[0] & (episodes.tally["over"][0] == 0)).astype(np.int8)
        observation: Observations = observations[0]
        return observation

    def _info(self, episodes: Episodes) -> dict[str, Any]:
        """Say what is told at every step."""
        return {"action_mask": self._mask.copy(), "level": int(episodes.level[0])}

    def _begun(self) -> Episodes:
        """Return the episode, if one has begun."""
        if self._episodes is None or not self._episodes.tally["episode"][0]:
            raise UsageError("no episode has begun; call reset first")
        return self._episodes

    def _running(self) -> Episodes:
        """Return the episode, if it is not over."""
        episodes = self._begun()
        if episodes.tally["over"][0]:
            raise UsageError("the episode is over; call reset first")
        return episodes


def _read(workload: Workload | Path | str | Sequence[Workload | Path | str] | None) -> list[Workload]:
    """Return the jobsets; none where they are drawn."""
    if workload is None:
        return []
    given = [workload] if isinstance(workload, Workload | Path | str) else list(workload)
    if not given:
        raise UsageError("there are no workloads; give some, or None for drawn ones")
    return [jobs if isinstance(jobs, Workload) else read_workload(jobs) for jobs in given]


def _machine(jobsets: list[Workload], processors: int | None) -> int:
    """Return the number of nodes."""
    known = [DRAWN_PROCESSORS] if not jobsets else [jobs.machine_processors for jobs in jobsets]
    machine = known[0] if processors is None else processors
    if machine is None or (processors is None and len(set(known)) > 1):
        raise UsageError("the workloads do not say how large their one machine is; give processors")
    return whole_number("number of processors", machine, 1)


def _results(episodes: Episodes) -> dict[str, float]:
    """Say what the episode has come to."""
    tally = episodes.tally[0]
    return {
        "mean_bounded_slowdown": float(tally["bounded_slowdown"] / tally["started"]),
        "mean_wait_s": float(tally["wait_s"] / tally["started"]),
        "longest_wait_s": float(tally["longest_wait_s"]),
        "makespan_s": float(tally["makespan_s"]),
    }
