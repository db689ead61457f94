"""Judging both selectors on job sets that they were not trained on."""

from collections.abc import Sequence

import numpy as np

from allocopt.envs.cush.episodes import Episodes, Options
from allocopt.envs.cush.jobsets import JobSet, Machine
from learned.cush.acting import Agent, right_share, run_agent
from learned.training.workers import Workers


class Validator:
    """Plays job sets through by the best choices; every worker a share of them.

    Parameters
    ----------
    jobsets
        The job sets, of which each worker keeps every P-th.
    machine
        The cluster.
    options
        The environment's, as in the training.
    workers
        Who shares them out.
    """

    def __init__(self, jobsets: Sequence[JobSet], machine: Machine, options: Options, workers: Workers) -> None:
        own = jobsets[workers.rank :: workers.count]
        self._episodes = Episodes(own, machine, len(own), options) if own else None

    def measures(self, agent: Agent, workers: Workers) -> dict[str, float]:
        """Return mean normalized turnaround time, which is the score, and share of jobs with the better policy."""
        sums = np.zeros(3)
        episodes = self._episodes
        if episodes is not None:
            run_agent(agent, episodes)
            n = len(episodes.jobsets)
            turnaround = float(episodes.metrics()["normalized_turnaround"].sum())
            sums += (n, turnaround, n * right_share(episodes))
        count, turnaround, right = workers.total(sums)
        return {"score": float(turnaround / count), "right_policies": float(right / count)}
