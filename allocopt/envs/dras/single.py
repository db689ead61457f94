"""The environment in which an agent schedules at two levels, one episode at a time."""

from collections.abc import Sequence

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.dras.batch import Observations
from allocopt.envs.dras.episodes import Episodes, ObservationName
from allocopt.envs.dras.rewards import Weights
from allocopt.envs.dras.setup import Jobs, ReservationName, make_setup
from allocopt.envs.of_jobsets import JobsetEnv
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.two_level import PAPER_WINDOW, Choice


class TwoLevelEnv(JobsetEnv[Observations, np.int64, Episodes]):
    """An agent chooses which jobs start, which one is reserved, and which are backfilled.

    An action is a slot, in ``0 .. W - 1``, or W to end the instance; where it is not legal, the first one that is is
    taken (``invalid_action``). The dictionary has the ``level``, and at the end of an episode
    ``mean_bounded_slowdown``, ``mean_wait_s``, ``longest_wait_s`` and ``makespan_s``.

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

    def __init__(
        self,
        workload: Jobs | Sequence[Jobs] | None = None,
        processors: int | None = None,
        window: int = PAPER_WINDOW,
        reservations: ReservationName = "kept",
        reward: Weights | None = None,
        observation: ObservationName = "slots",
        can_end: bool = False,
        rules: Rules | None = None,
    ) -> None:
        super().__init__(make_setup(workload, processors, window, reservations, reward, observation, can_end, rules))

    def choice(self) -> Choice:
        """Return what is to be chosen as selectors are asked, so that they can answer here too.

        Raises
        ------
        UsageError
            If no episode has begun, or it is over.
        """
        return self.running.choice(0)

    def schedule(self) -> Schedule:
        """Return when the jobs of the episode started and end; NaN where that is not known yet."""
        return self.episodes.schedule(0)

    def modes(self) -> IntArray:
        """Return the `allocopt.simulator.rules.Mode` of each job, shape ``(n,)``."""
        return self.episodes.modes(0)

    def promised(self) -> FloatArray:
        """Return the time each job was promised last, in seconds, infinite where it was not; shape ``(n,)``."""
        return self.episodes.promised(0)
