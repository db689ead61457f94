"""Letting both selectors act: one step of many episodes, and whole episodes by their best choices."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import DynamicTypes, Episodes, Options
from learned.cush.selectors import Agent
from learned.rl.workers import Workers

MEANS = ("turnaround", "wait", "rewards", "penalty")
"""Metrics of episodes that are told beside the score; see `Episodes.metrics`."""


class Starts(NamedTuple):
    """The jobs that are about to start."""

    episodes: IntArray  # In which episode each does, rising, shape ``(n,)``
    jobs: IntArray  # Their numbers in the job sets, shape ``(n,)``
    described: Float32Array  # What the policy selector is told of them, shape ``(n, inputs)``
    penalties: FloatArray  # Under each `Policy`, shape ``(n, 2)``


def look(episodes: Episodes) -> tuple[Float32Array, BoolArray]:
    """Return observations, and what agents may choose; see `idling_forbidden`."""
    observations, legal = episodes.observe()
    return observations, idling_forbidden(legal, episodes.tally["running"])


def idling_forbidden(legal: BoolArray, running: IntArray) -> BoolArray:
    """Return legal choices without doing nothing where nothing runs and something can start.

    An agent that liked to do nothing best on an idle machine would wait for ever.
    """
    allowed = legal.copy()
    allowed[:, -1] = (running > 0) | ~legal[:, :-1].any(axis=1)
    return allowed


def starts_of(episodes: Episodes, slots: IntArray, over: BoolArray) -> Starts:
    """Return the jobs in the chosen slots of the episodes that are not over."""
    chosen = np.flatnonzero((slots < episodes.options.queue) & ~over)
    places = chosen, slots[chosen]
    return Starts(chosen, episodes.jobs()[places], episodes.descriptions()[places], episodes.penalties()[places])


def best_step(agent: Agent, episodes: Episodes, over: BoolArray) -> BoolArray:
    """Take the best choices in all episodes; return which are over then."""
    slots = agent.jobs.best(*look(episodes))
    starts = starts_of(episodes, slots, over)
    policies = np.zeros(len(slots), dtype=np.int64)
    policies[starts.episodes] = agent.policies.best(starts.described, starts.penalties)
    return episodes.step(slots, policies)[1]


def run_agent(agent: Agent, episodes: Episodes) -> None:
    """Play every job set in an episode of its own through, by the best choices."""
    episodes.begin(np.arange(len(episodes.jobsets)))
    over = np.zeros(episodes.n_environments, dtype=np.bool_)
    while not over.all():
        over = best_step(agent, episodes, over)


def run_dynamic(agent: Agent, types: DynamicTypes, episodes: Episodes, number: int) -> None:
    """Play a job set of applications through by the best choices, whose types become known meanwhile."""
    types.begin(number)
    over = np.zeros(1, dtype=np.bool_)
    while not over.all():
        over = best_step(agent, episodes, over)
        types.look()


def right_share(episodes: Episodes) -> float:
    """Share of the started jobs that were allocated by their better policy."""
    right = [
        jobs.penalty[np.arange(len(jobs)), episodes.times(number)[2]] <= jobs.penalty.min(axis=1) + 1e-9
        for number, jobs in enumerate(episodes.jobsets)
    ]
    return float(np.concatenate(right).mean())


class Validator:
    """Judges both selectors on job sets that they were not trained on; every worker plays every P-th of them."""

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
