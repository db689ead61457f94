"""Judging a policy on jobsets that it was not trained on, beside FCFS with EASY backfilling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import Float32Array, FloatArray
from allocopt.envs.dras.task import Episodes, Options
from allocopt.traces.workload import Workload
from learned.dras.environment import first_come_first_served, mean_waits_s
from learned.dras.jobsets import HOUR_S
from learned.rl.slots import SlotPolicy, pack_slots


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Waits of one policy on some jobsets."""

    # Mean and longest wait in each jobset, in hours, shape ``(n,)``
    mean_h: FloatArray
    longest_h: FloatArray
    total_reward: float  # Mean sum of an episode's rewards


class Validator:
    """Plays jobsets through with a policy that always takes what it likes best.

    It pays where a jobset's longest wait is more than ``tolerated`` times that under FCFS with EASY.
    """

    def __init__(self, jobsets: Sequence[Workload], machine: int, options: Options, tolerated: float = 1.25) -> None:
        self._tolerated = tolerated
        self._episodes = Episodes(jobsets, machine, len(jobsets), options)
        self.reference = _waits(first_come_first_served(jobsets, machine, options))

    def waits(self, weights: Mapping[str, Float32Array]) -> Waits:
        """Play all jobsets through with the compact network of these weights."""
        episodes, policy = self._episodes, SlotPolicy(pack_slots(weights))
        episodes.begin(np.arange(len(episodes.jobsets)))
        while not episodes.step(policy.best(*episodes.observe()))[1].all():
            pass
        return _waits(episodes)

    def measures(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
        """Compare a network's waits with those of FCFS and EASY, and say how good it is in one number, less is better.

        That number is the mean over the jobsets of the ratio of mean waits, plus what the ratio of longest waits is
        beyond what is tolerated.
        """
        waits = self.waits(weights)
        wait_ratio = waits.mean_h / self.reference.mean_h
        longest_ratio = waits.longest_h / self.reference.longest_h
        return {
            "wait_h": float(waits.mean_h.mean()),
            "wait_ratio": float(wait_ratio.mean()),
            "longest_ratio": float(longest_ratio.mean()),
            "worst_longest_ratio": float(longest_ratio.max()),
            "total_reward": waits.total_reward,
            "score": float((wait_ratio + np.maximum(longest_ratio - self._tolerated, 0.0)).mean()),
        }


def _waits(episodes: Episodes) -> Waits:
    # Where nobody waited, a second stands for it, so that ratios exist.
    mean_h = np.maximum(mean_waits_s(episodes), 1.0) / HOUR_S
    longest_h = np.maximum(episodes.tally["longest_wait_s"], 1.0) / HOUR_S
    return Waits(mean_h, longest_h, float(episodes.tally["total_reward"].mean()))
