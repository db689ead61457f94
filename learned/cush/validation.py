"""Judging both selectors on job sets that they were not trained on."""

from collections.abc import Sequence

import numpy as np

from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import Episodes, Options
from learned.cush.acting import Agent, right_share, run_agent
from learned.training.workers import Workers

MEANS = ("turnaround", "wait", "rewards", "penalty")
"""Metrics of episodes that are told beside the score; see `Episodes.metrics`."""


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
        """Return means over the job sets: normalized turnaround time, which is the score, and those of `MEANS`.

        ``right_policies`` is the share of the jobs that got the better policy.
        """
        sums = np.zeros(3 + len(MEANS))
        episodes = self._episodes
        if episodes is not None:
            run_agent(agent, episodes)
            metrics, n = episodes.metrics(), len(episodes.jobsets)
            sums[:2] = n, n * right_share(episodes)
            sums[2:] = [metrics[name].sum() for name in ("normalized_turnaround", *MEANS)]
        count, right, score, *means = workers.total(sums).tolist()
        named = {f"validated_{name}": mean / count for name, mean in zip(MEANS, means, strict=True)}
        return {"score": score / count, "right_policies": right / count, **named}
