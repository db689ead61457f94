"""The simulations of an epoch: several of each job set side by side, and what was seen, done and gained in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import Episodes, Options
from learned.cush.acting import Agent, Starts, look, starts_of


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """How the n jobs of some episodes were allocated.

    Parameters
    ----------
    episodes, jobs
        In which episode each was, and its number in the job set, shape ``(n,)``.
    described
        What the policy selector was told of it, shape ``(n, inputs)``.
    policies, penalties, right
        The policy that was drawn, its penalty, and whether no other one has a smaller penalty, shape ``(n,)``.
    """

    episodes: IntArray
    jobs: IntArray
    described: Float32Array
    policies: IntArray
    penalties: FloatArray
    right: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Whole episodes: T steps of E episodes, after which all are over.

    Parameters
    ----------
    observations, legal, slots
        Of the N choices where more than one thing could be done, step after step.
    acts
        Where these were, shape ``(T, E)``, N times true.
    runs
        Which episodes were not over yet, shape ``(T, E)``.
    rewards
        Shape ``(T, E)``.
    times
        Timesteps passed before each step, shape ``(T, E)``.
    turnaround
        Mean normalized turnaround time of each episode, shape ``(E,)``.
    allocations
        How all jobs were allocated.
    """

    observations: Float32Array
    legal: BoolArray
    slots: IntArray
    acts: BoolArray
    runs: BoolArray
    rewards: FloatArray
    times: IntArray
    turnaround: FloatArray
    allocations: Allocations


class Simulations:
    """Episodes over job sets, some of which are drawn for every epoch.

    Parameters
    ----------
    jobsets
        Job sets to train on.
    machine
        The cluster.
    groups, simulations
        Job sets that are played at a time, and episodes of each.
    options
        What episodes have in common.
    seed
        Fixes which job sets are drawn.
    """

    def __init__(
        self,
        jobsets: Sequence[JobSet],
        machine: Machine,
        groups: int,
        simulations: int,
        options: Options,
        seed: int,
    ) -> None:
        self.episodes = Episodes(jobsets, machine, groups * simulations, options)
        self.groups = np.repeat(np.arange(groups), simulations)
        self._n_groups = groups
        self._rng = np.random.default_rng((seed, 1))

    def play(self, agent: Agent, generator: torch.Generator) -> Played:
        """Draw job sets, and choices until every episode is over."""
        count = len(self.episodes.jobsets)
        drawn = self._rng.choice(count, self._n_groups, replace=count < self._n_groups)
        self.episodes.begin(drawn[self.groups])
        return _play(agent, self.episodes, generator)

    def snapshot(self) -> dict[str, Any]:
        """Return what changes from epoch to epoch; between two of them no episode runs."""
        return {"generator": self._rng.bit_generator.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._rng.bit_generator.state = snapshot["generator"]


def _play(agent: Agent, episodes: Episodes, generator: torch.Generator) -> Played:
    """Draw choices until all episodes are over."""
    over = np.zeros(episodes.n_environments, dtype=np.bool_)
    seen, masks, chosen, acts, runs, rewards, times, begun, allocated = ([] for _ in range(9))
    while not over.all():
        observations, legal = look(episodes)
        uniform = torch.rand((2, len(over)), dtype=torch.float64, generator=generator).numpy()
        slots = agent.jobs.draw(observations, legal, uniform[0])
        starts = starts_of(episodes, slots, over)
        policies = np.zeros(len(slots), dtype=np.int64)
        how = agent.policies.draw(starts.described, starts.penalties, uniform[1][starts.episodes])
        policies[starts.episodes] = how
        open_choice = ~over & (legal.sum(axis=1) > 1)
        seen.append(observations[open_choice])
        masks.append(legal[open_choice])
        chosen.append(slots[open_choice])
        acts.append(open_choice)
        runs.append(~over)
        times.append(episodes.tally["now"].copy())
        begun.append(starts)
        allocated.append(how)
        reward, over = episodes.step(slots, policies)
        rewards.append(reward)
    return Played(
        observations=np.concatenate(seen),
        legal=np.concatenate(masks),
        slots=np.concatenate(chosen),
        acts=np.array(acts),
        runs=np.array(runs),
        rewards=np.array(rewards),
        times=np.array(times),
        turnaround=episodes.metrics()["normalized_turnaround"],
        allocations=_allocations(begun, np.concatenate(allocated)),
    )


def _allocations(begun: Sequence[Starts], policies: IntArray) -> Allocations:
    """Put the jobs together that were started in one step after the other."""
    numbers, jobs, described, penalties = (np.concatenate(parts) for parts in zip(*begun, strict=True))
    paid = penalties[np.arange(len(policies)), policies]
    right = paid <= penalties.min(axis=1) + 1e-9
    return Allocations(numbers, jobs, described, policies, paid, right)
