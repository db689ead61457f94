"""Returns, and the baseline that the simulations of a job set are for each other (section 3.2, Algorithm 1).

The return of a step is ``v_t = (sum over i >= t of gamma^(i - t) r_i) r_g``: discounted local rewards, times the mean
normalized turnaround time of the episode where that is asked for. Rewards are negative, so that an episode that went
worse has smaller returns. The baseline ``b_t`` is the mean of the returns of all simulations of the same job set, those
of the other workers among them, at the same time ``t``: after as many timesteps, or after as many actions.
"""

from typing import Literal

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from learned.algorithms.pg import cumulative_rewards
from learned.cush.simulations import Played
from learned.training.workers import Workers

Clock = Literal["timesteps", "actions"]
CLOCKS: tuple[Clock, ...] = ("timesteps", "actions")
"""What counts as the same time."""


def returns_of(played: Played, discount: float, *, global_reward: bool) -> FloatArray:
    """Return ``v_t`` of every step, shape ``(T, E)``.

    Parameters
    ----------
    played
        The simulations.
    discount
        Gamma.
    global_reward
        Whether it is multiplied by the mean normalized turnaround time of the episode.
    """
    returns = cumulative_rewards(played.rewards, np.zeros_like(played.runs), discount)
    return returns * played.turnaround if global_reward else returns


def times_by(clock: Clock, played: Played) -> IntArray:
    """Return the time of every step by a clock, shape ``(T, E)``."""
    if clock == "timesteps":
        return played.times
    return np.broadcast_to(np.arange(len(played.times))[:, None], played.times.shape)


def baseline(returns: FloatArray, times: IntArray, runs: BoolArray, groups: IntArray, workers: Workers) -> FloatArray:
    """Return the mean return of the simulations of the same job set at the same time, shape ``(T, E)``.

    Parameters
    ----------
    returns, times, runs
        Returns, times, and where episodes were not over, shape ``(T, E)``.
    groups
        Job set of each episode, from 0 on, shape ``(E,)``; the workers must have the same job sets.
    workers
        Who plays simulations of them.
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
