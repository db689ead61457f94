"""Goals of evolution: the loss of a schedule relative to that of EASY."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from allocopt.simulator.schedule import Schedule

WAIT_S, LONGEST_S = 60.0, 600.0  # added to mean and longest waits, so that ratios of short waits count little


@dataclass(frozen=True, slots=True)
class Goal:
    """Objective of evolution: a loss of the schedule of a block of jobs, relative to that of EASY.

    The loss is ``wait`` times the logarithm of the ratio of the mean waits, plus ``slowdown`` times the logarithm of
    the ratio of the mean bounded slowdowns. If the ratio of the longest waits exceeds ``tolerated``, ``longest`` times
    the logarithm of the excess is added.
    """

    wait: float
    slowdown: float
    longest: float
    tolerated: float

    def loss(self, found: "Waits", easy: "Waits") -> float:
        """Return the loss of a schedule, given that of EASY."""
        ratio = np.log((found.longest_s + LONGEST_S) / (easy.longest_s + LONGEST_S) / self.tolerated)
        return float(
            self.wait * np.log((found.mean_s + WAIT_S) / (easy.mean_s + WAIT_S))
            + self.slowdown * np.log(found.slowdown / easy.slowdown)
            + self.longest * max(0.0, ratio)
        )


GOALS: Mapping[str, Goal] = MappingProxyType(
    {
        "balanced": Goal(wait=1.0, slowdown=0.5, longest=3.0, tolerated=1.0),
        "slowdown": Goal(wait=0.5, slowdown=1.0, longest=1.0, tolerated=1.5),
        "fair": Goal(wait=0.5, slowdown=0.25, longest=4.0, tolerated=0.8),
    }
)
"""Goals by name; the shipped weights have the same names."""


class Waits(NamedTuple):
    """Measures of a schedule: mean and longest wait in seconds, and mean bounded slowdown."""

    mean_s: float
    longest_s: float
    slowdown: float

    @classmethod
    def of(cls, schedule: Schedule) -> "Waits":
        """Return the measures of a schedule."""
        times = schedule.job_times
        return cls(float(times.wait_s.mean()), float(times.wait_s.max()), float(times.bounded_slowdown.mean()))
