"""The simulations of an epoch: several of each job set side by side, and what was seen, done and gained in them.

The return of a step is ``v_t = (sum over i >= t of gamma^(i - t) r_i) r_g``: discounted local rewards, times the mean
normalized turnaround time of the episode where that is asked for. Rewards are negative, so that an episode that went
worse has smaller returns. The baseline ``b_t`` is the mean of the returns of all simulations of the same job set, those
of the other workers among them, at the same time ``t``: after as many timesteps, or after as many actions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import Episodes, Options
from learned.cush.acting import look, starts_of
from learned.cush.selectors import Agent
from learned.rl.rollout import cumulative_rewards
from learned.rl.workers import Workers

Clock = Literal["timesteps", "actions"]
"""What counts as the same time."""


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """How the n jobs of some episodes were allocated."""

    # In which episode each was, and its number in the job set, shape ``(n,)``
    episodes: IntArray
    jobs: IntArray
    described: Float32Array  # What the policy selector was told of it, shape ``(n, inputs)``
    # The policy that was drawn, its penalty, and whether no other one has a smaller penalty, shape ``(n,)``
    policies: IntArray
    penalties: FloatArray
    right: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Whole episodes: T steps of E episodes, after which all are over."""

    # Of the N choices where more than one thing could be done, step after step
    observations: Float32Array
    legal: BoolArray
    slots: IntArray
    acts: BoolArray  # Where these were, shape ``(T, E)``, N times true
    runs: BoolArray  # Which episodes were not over yet, shape ``(T, E)``
    rewards: FloatArray  # Shape ``(T, E)``
    times: IntArray  # Timesteps passed before each step, shape ``(T, E)``
    turnaround: FloatArray  # Mean normalized turnaround time of each episode, shape ``(E,)``
    allocations: Allocations  # How all jobs were allocated


class Simulations:
    """Episodes over job sets, of which so many ``groups`` are drawn for every epoch, each for some ``simulations``."""

    def __init__(
        self, jobsets: Sequence[JobSet], machine: Machine, groups: int, simulations: int, options: Options, seed: int
    ) -> None:
        self.episodes = Episodes(jobsets, machine, groups * simulations, options)
        self.groups = np.repeat(np.arange(groups), simulations)
        self._n_groups = groups
        self._rng = np.random.default_rng((seed, 1))

    def play(self, agent: Agent, generator: torch.Generator) -> Played:
        """Draw job sets, and choices until every episode is over."""
        count = len(self.episodes.jobsets)
        drawn = self._rng.choice(count, self._n_groups, replace=count < self._n_groups)
        episodes = self.episodes
        episodes.begin(drawn[self.groups])
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
        numbers, jobs, described, penalties = (np.concatenate(parts) for parts in zip(*begun, strict=True))
        drawn_policies = np.concatenate(allocated)
        paid = penalties[np.arange(len(jobs)), drawn_policies]
        right = paid <= penalties.min(axis=1) + 1e-9
        return Played(
            observations=np.concatenate(seen),
            legal=np.concatenate(masks),
            slots=np.concatenate(chosen),
            acts=np.array(acts),
            runs=np.array(runs),
            rewards=np.array(rewards),
            times=np.array(times),
            turnaround=episodes.metrics()["normalized_turnaround"],
            allocations=Allocations(numbers, jobs, described, drawn_policies, paid, right),
        )

    def snapshot(self) -> dict[str, Any]:
        """Return what changes from epoch to epoch; between two of them no episode runs."""
        return {"generator": self._rng.bit_generator.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._rng.bit_generator.state = snapshot["generator"]


def returns_of(played: Played, gamma: float, *, global_reward: bool) -> FloatArray:
    """Return ``v_t`` of every step, shape ``(T, E)``, with or without the factor ``r_g``."""
    returns = cumulative_rewards(played.rewards, np.zeros_like(played.runs), gamma)
    return returns * played.turnaround if global_reward else returns


def times_by(clock: Clock, played: Played) -> IntArray:
    """Return the time of every step by a clock, shape ``(T, E)``."""
    if clock == "timesteps":
        return played.times
    return np.broadcast_to(np.arange(len(played.times))[:, None], played.times.shape)


def baseline(returns: FloatArray, times: IntArray, runs: BoolArray, groups: IntArray, workers: Workers) -> FloatArray:
    """Return the mean return of the simulations of the same job set at the same time, shape ``(T, E)``.

    ``runs`` says where episodes were not over, ``(T, E)``, and groups are the job sets of the episodes, from 0 on,
    shape ``(E,)``; all workers have the same job sets.
    """
    last = int(workers.largest(np.array([times[runs].max()], dtype=np.float64))[0])
    size, means = (int(groups.max()) + 1, last + 1), np.zeros_like(returns)
    means[runs] = means_over(returns[runs], np.broadcast_to(groups, times.shape)[runs], times[runs], size, workers)
    return means


def means_over(
    values: FloatArray, groups: IntArray, numbers: IntArray, size: tuple[int, int], workers: Workers
) -> FloatArray:
    """Return for each value the mean of those of all workers with the same group and number, shape ``(n,)``.

    Groups and numbers are below the two numbers of ``size``, which must be the same for all workers.
    """
    sums = np.zeros((2, *size))
    np.add.at(sums[0], (groups, numbers), values)
    np.add.at(sums[1], (groups, numbers), 1.0)
    sums = workers.total(sums)
    means: FloatArray = (sums[0] / np.maximum(sums[1], 1.0))[groups, numbers]
    return means
