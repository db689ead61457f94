"""Verdict on simulations: which one has the shortest mean wait and the least slowdown, and by how much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.combination import SLOWDOWN, WAIT, blocks_of
from allocopt.report.verdict import FEWEST_SAMPLES, Compared, Comparison, Quantity, compared_means
from allocopt.report.words import duration, percent


@dataclass(frozen=True, slots=True)
class SimulatedJobs:
    """Means of simulations of the same jobs by name of the simulation, each with a row per sample.

    Waits and slowdowns have the rows of `allocopt.report.verdict.change_interval`. ``groups`` has the waits of groups
    of jobs. ``noun`` and ``sample`` are the plurals for what is compared and for the samples.
    """

    waits: Mapping[str, FloatArray]
    slowdowns: Mapping[str, FloatArray]
    noun: str
    groups: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)
    sample: str = ""

    def verdict(self) -> list[str]:
        """Return a sentence on waits, with groups in which they differ, and one on slowdowns."""
        groups = {title: compared_means(waits) for title, waits in self.groups.items()}
        return [
            self._compared(WAIT, compared_means(self.waits), groups).sentence(),
            self._compared(SLOWDOWN, compared_means(self.slowdowns), {}).sentence(""),
        ]

    def _compared(
        self, quantity: Quantity, results: Sequence[Compared], groups: Mapping[str, Sequence[Compared]]
    ) -> Comparison:
        why = f"fewer than {FEWEST_SAMPLES} {self.sample}" if self.sample else "only means are known"
        return Comparison(quantity, results, self.noun, groups, why)


def samples_of_blocks(submit: FloatArray, values: FloatArray) -> FloatArray:
    """Return the number of jobs and the sum of their values in each block of days or weeks of submissions."""
    _, block = blocks_of(submit)
    return np.stack([np.bincount(block).astype(np.float64), np.bincount(block, values)], axis=1)


def single_verdict(jobs: int, mean_wait_s: float, max_wait_s: float, utilization: float) -> str:
    """Return the verdict on a simulation or schedule that is compared with none."""
    waits = f"{jobs:,} jobs wait {duration(mean_wait_s)} on average and at most {duration(max_wait_s)}"
    return f"{waits}; {percent(utilization)} of the machine is in use."
