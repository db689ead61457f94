"""What the Gymnasium environments of co-allocation have in common: cluster, jobs, spaces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, Float32Array, FloatArray
from allocopt.envs.asked import whole_number
from allocopt.envs.coallocation.describe import size_of
from allocopt.envs.coallocation.episodes import Episodes, Options, applications_of
from allocopt.envs.of_jobsets import Setup
from allocopt.errors import UsageError
from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES
from allocopt.traces.asax_queue import QueuedJob, asax_queue

DRAWN_QUEUES = 16
"""Queues drawn by the seed of a reset where none are given."""
WALLTIME_FACTOR, BETWEEN_S = 1.25, 120.0
"""Of drawn queues, as in `allocopt reproduce`: limits over run times, mean seconds between submissions."""

Queue = Sequence[QueuedJob]


@dataclass(frozen=True, slots=True)
class CoallocationSetup(Setup[tuple[QueuedJob, ...], Episodes, Float32Array]):
    """An environment, but for chance.

    Parameters
    ----------
    jobsets
        The queues of which an episode takes one; None for drawn ones.
    cores
        Cores of the cluster.
    options
        Quotas, reward, and who is asked about.
    """

    cores: int
    options: Options

    def episodes(self, count: int, rng: np.random.Generator) -> Episodes:
        """Return episodes that have not begun."""
        jobsets = self.jobsets
        if jobsets is None:
            lines = self.cores if self.cores in CLUSTER_SIZES else CLUSTER_SIZES[0]
            jobsets = tuple(
                asax_queue(rng, walltime_factor=WALLTIME_FACTOR, cluster=lines, between_s=BETWEEN_S)
                for _ in range(DRAWN_QUEUES)
            )
        return Episodes(jobsets, self.cores, count, self.options)

    def observation_space(self) -> Box:
        """Space of what an agent sees."""
        names = tuple(APPLICATIONS) if self.jobsets is None else applications_of(self.jobsets)
        return Box(0.0, 1.0, (size_of(names),), np.float32)

    def action_space(self) -> Discrete:
        """Space of quotas."""
        return Discrete(len(self.options.percents))

    def look(self, episodes: Episodes) -> tuple[Float32Array, NDArray[np.int8]]:
        """Return what agents see, and which quotas they may give."""
        seen, legal = episodes.observe()
        return seen, legal.astype(np.int8)

    def step(self, episodes: Episodes, actions: NDArray[Any]) -> tuple[FloatArray, BoolArray]:
        """Give quotas; actions are their numbers, shape ``(E,)``."""
        return episodes.step(actions)


def make_setup(cores: int, jobs: Queue | Sequence[Queue] | None, options: Options | None) -> CoallocationSetup:
    """Return a setup; None stands for defaults.

    Raises
    ------
    UsageError
        If the jobs are none, or there are no cores.
    """
    options = Options() if options is None else options
    if not isinstance(options, Options):
        raise UsageError(f"the options are {options!r}, must be Options, or None")
    return CoallocationSetup(_jobsets(jobs), whole_number("number of cores", cores, 1), options)


def _jobsets(jobs: Queue | Sequence[Queue] | None) -> tuple[tuple[QueuedJob, ...], ...] | None:
    """Return the queues."""
    if jobs is None:
        return None
    listed: Sequence[Any] = [jobs] if isinstance(jobs, Sequence) and jobs and isinstance(jobs[0], QueuedJob) else jobs
    if not isinstance(listed, Sequence) or not all(_is_queue(queue) for queue in listed):
        raise UsageError("the jobs must be a sequence of QueuedJob or several of them, or None")
    return tuple(tuple(queue) for queue in listed)


def _is_queue(queue: object) -> bool:
    """Whether this is a queue with a job at least."""
    return isinstance(queue, Sequence) and len(queue) > 0 and all(isinstance(job, QueuedJob) for job in queue)
