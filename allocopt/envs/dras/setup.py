"""What the Gymnasium environments of two levels have in common: jobs, machine, spaces."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray
from allocopt.envs.asked import actions_of, whole_number
from allocopt.envs.dras.batch import Observations
from allocopt.envs.dras.describe import MOST, MOST_DAYS
from allocopt.envs.dras.episodes import Episodes, ObservationName, Options
from allocopt.envs.dras.rewards import CAPABILITY, Weights
from allocopt.envs.of_jobsets import Setup
from allocopt.errors import UsageError
from allocopt.simulator.rules import Reservations, Rules
from allocopt.traces.lublin import lublin_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

DRAWN_PROCESSORS, DRAWN_JOBS = 256, 256
"""Machine and jobs of an episode where no workload is given."""

ReservationName = Literal["kept", "renewed", "none"]
Jobs = Workload | Path | str
"""A workload, or a file of one."""


@dataclass(frozen=True, slots=True)
class TwoLevelSetup(Setup[Workload, Episodes, Observations]):
    """An environment, but for chance.

    Parameters
    ----------
    jobsets
        The workloads of which an episode takes one; None for jobs of the Lublin-Feitelson model that are drawn.
    machine
        Number of nodes N.
    options
        Window, reservations, reward and observation.

    Raises
    ------
    UsageError
        If there are no workloads.
    """

    machine: int
    options: Options

    def episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        """Return episodes that have not begun."""
        jobsets = self.jobsets
        if jobsets is None:
            jobsets = (lublin_workload(DRAWN_JOBS, self.machine, rng),)
        return Episodes(jobsets, self.machine, count, self.options)

    def observation_space(self) -> Box:
        """Space of what an agent sees."""
        most = MOST if self.options.observation == "slots" else MOST_DAYS
        return Box(0.0, most, self.options.shape(self.machine), np.float32)

    def action_space(self) -> Discrete:
        """Space of slots, and of the end of the instance."""
        return Discrete(self.options.n_actions)

    def look(self, episodes: Episodes) -> tuple[Observations, NDArray[np.int8]]:
        """Return what agents see, and which actions are legal; none is where the episode is over."""
        seen, legal = episodes.observe()
        running = episodes.tally["over"] == 0
        return seen, (legal & running[:, np.newaxis]).astype(np.int8)

    def step(self, episodes: Episodes, actions: NDArray[Any]) -> tuple[FloatArray, BoolArray]:
        """Choose slots, shape ``(E,)``."""
        return episodes.step(actions_of(actions, episodes.n_environments, self.options.n_actions))

    def told(self, episodes: Episodes) -> dict[str, NDArray[Any]]:
        """Return the level at which each episode stands."""
        return {"level": episodes.level}


def make_setup(
    workload: Jobs | Sequence[Jobs] | None,
    processors: int | None,
    window: int,
    reservations: ReservationName,
    reward: Weights | None,
    observation: ObservationName,
    can_end: bool,
    rules: Rules | None,
) -> TwoLevelSetup:
    """Return a setup of what `TwoLevelEnv` takes.

    Raises
    ------
    UsageError
        If a value is not one of those that there are, or the number of nodes is not known.
    BadFileError
        If a file cannot be read.
    """
    given = [workload] if isinstance(workload, Workload | Path | str) else workload
    jobsets = (
        None if given is None else tuple(jobs if isinstance(jobs, Workload) else read_workload(jobs) for jobs in given)
    )
    options = Options(
        window,
        _reservations(reservations),
        CAPABILITY if reward is None else reward,
        observation,
        can_end,
        rules=Rules() if rules is None else rules,
    )
    return TwoLevelSetup(jobsets, _machine(jobsets, processors), options)


def _reservations(name: str) -> Reservations:
    """Return the rule of that name."""
    if not isinstance(name, str) or name.upper() not in Reservations.__members__:
        known = ", ".join(kind.lower() for kind in Reservations.__members__)
        raise UsageError(f"reservations is {name!r}, must be one of {known}")
    return Reservations[name.upper()]


def _machine(jobsets: tuple[Workload, ...] | None, processors: int | None) -> int:
    """Return the number of nodes."""
    known = [DRAWN_PROCESSORS] if not jobsets else [jobs.machine_processors for jobs in jobsets]
    machine = known[0] if processors is None else processors
    if machine is None or (processors is None and len(set(known)) > 1):
        raise UsageError("the workloads do not say how large their one machine is; give processors")
    return whole_number("number of processors", machine, 1)
