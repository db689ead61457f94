"""What the Gymnasium environments of policy selection have in common: machine, jobs, spaces."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, Float32Array, FloatArray
from allocopt.cluster.irmasim import heterogeneous
from allocopt.cluster.multicore import Machine
from allocopt.cluster.reading import read_machine
from allocopt.envs.of_jobsets import Setup
from allocopt.envs.policy_selection.describe import Level, size_of
from allocopt.envs.policy_selection.episodes import Episodes, Options
from allocopt.errors import UsageError
from allocopt.simulator.multicore.state import Execution
from allocopt.traces.irmasim import read_irmasim
from allocopt.traces.npb import npb_batch
from allocopt.traces.tasks import TaskWorkload

DRAWN_JOBSETS, DRAWN_JOBS = 16, 100
"""Job sets drawn by the seed of a reset where none are given, and jobs of each."""

Jobs = Sequence[TaskWorkload] | TaskWorkload | Path | str


@dataclass(frozen=True, slots=True)
class PolicySelectionSetup(Setup[TaskWorkload, Episodes, Float32Array]):
    """An environment, but for chance.

    Parameters
    ----------
    jobsets
        The jobs of which an episode takes one set; None for batches of NPB jobs that are drawn.
    machine
        The machine.
    execution
        How they run.
    options
        Level, reward and policies.

    Raises
    ------
    UsageError
        If there are no job sets.
    """

    machine: Machine
    execution: Execution
    options: Options

    def episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        """Return episodes that have not begun."""
        jobsets = self.jobsets
        if jobsets is None:
            jobsets = tuple(npb_batch(DRAWN_JOBS, rng) for _ in range(DRAWN_JOBSETS))
        return Episodes(jobsets, self.machine, count, self.execution, self.options)

    def observation_space(self) -> Box:
        """Space of what an agent sees."""
        return Box(0.0, 1.0, (size_of(Level[self.options.level.upper()], self.machine),), np.float32)

    def action_space(self) -> Discrete:
        """Space of policies."""
        return Discrete(len(self.options.actions))

    def look(self, episodes: Episodes) -> tuple[Float32Array, NDArray[np.int8]]:
        """Return what agents see, and which policies they may choose."""
        seen, legal = episodes.observe()
        return seen, legal.astype(np.int8)

    def step(self, episodes: Episodes, actions: NDArray[Any]) -> tuple[FloatArray, BoolArray]:
        """Start waiting jobs by policies; actions are their numbers, shape ``(E,)``."""
        return episodes.step(actions)

    def reseed(self, episodes: Episodes, rng: np.random.Generator) -> None:
        """Draw anew what random policies draw from."""
        episodes.seed(rng)


def make_setup(
    machine: Machine | Path | str | None,
    jobs: Jobs | None,
    execution: Execution | None,
    options: Options | None,
) -> PolicySelectionSetup:
    """Return a setup; None stands for defaults, a path for a file.

    Raises
    ------
    BadFileError
        If a file is not right.
    UsageError
        If there are no job sets, or the machine is none.
    """
    machine = heterogeneous() if machine is None else machine
    machine = read_machine(machine) if isinstance(machine, Path | str) else machine
    if not isinstance(machine, Machine):
        raise UsageError(f"the machine is {machine!r}, must be a Machine or a platform file")
    execution, options = Execution() if execution is None else execution, Options() if options is None else options
    if not (isinstance(execution, Execution) and isinstance(options, Options)):
        raise UsageError("the execution must be an Execution and the options must be Options, or None")
    return PolicySelectionSetup(_jobsets(jobs), machine, execution, options)


def _jobsets(jobs: Jobs | None) -> tuple[TaskWorkload, ...] | None:
    """Return job sets; a path stands for a file."""
    if jobs is None:
        return None
    jobs = read_irmasim(jobs) if isinstance(jobs, Path | str) else jobs
    sets = (jobs,) if isinstance(jobs, TaskWorkload) else jobs
    if not (isinstance(sets, Sequence) and all(isinstance(one, TaskWorkload) for one in sets)):
        raise UsageError("the jobs must be a TaskWorkload or several, a workload file, or None")
    return tuple(sets)
