"""Letting both selectors act: one step of many episodes, and whole episodes by their best choices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.applications import DynamicTypes
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import Episodes, Options
from learned.cush.selectors import JobSelector, PolicySelector


@dataclass(frozen=True, slots=True)
class Agent:
    """A job selector and a policy selector."""

    jobs: JobSelector
    policies: PolicySelector


class Starts(NamedTuple):
    """The jobs that are about to start.

    Parameters
    ----------
    episodes
        In which episode each does, rising, shape ``(n,)``.
    jobs
        Their numbers in the job sets, shape ``(n,)``.
    described
        What the policy selector is told of them, shape ``(n, inputs)``.
    penalties
        Under each `Policy`, shape ``(n, 2)``.
    """

    episodes: IntArray
    jobs: IntArray
    described: Float32Array
    penalties: FloatArray


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


def schedule_jobsets(
    agent: Agent, jobsets: Sequence[JobSet], machine: Machine, options: Options
) -> tuple[dict[str, FloatArray], Episodes]:
    """Schedule job sets by the best choices.

    Returns
    -------
    dict, Episodes
        What `Episodes.metrics` gives, one value for each job set, and the episodes, all of them over.
    """
    episodes = Episodes(jobsets, machine, len(jobsets), options)
    run_agent(agent, episodes)
    return episodes.metrics(), episodes


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
