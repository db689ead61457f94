"""Variants of a trace, whose run times differ somewhat, and what a measure is over variants."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.traces.workload import Workload

JITTER = 0.05
"""How much run times of variants usually differ: the standard deviation of the logarithm of their factors."""
CONFIDENCE = 0.95


def varied_run_times(workload: Workload, rng: np.random.Generator, jitter: float = JITTER) -> Workload:
    """Return the jobs with other run times, of at least a second and at most their limits, which stay.

    One such change moves all that follows in a busy schedule, so variants tell better what a policy is worth.

    Parameters
    ----------
    workload
        The jobs.
    rng
        Source of randomness.
    jitter
        Standard deviation of the logarithm of what run times are multiplied by.
    """
    run = np.rint(workload.run * np.exp(jitter * rng.standard_normal(len(workload))))
    return replace(workload, run=np.clip(run, 1.0, np.maximum(workload.estimate, 1.0)))


class Interval(NamedTuple):
    """A mean over variants, and from where to where its interval of 95 % goes."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> "Interval":
        """Return that of two values or more, by Student's t distribution. Needs scipy."""
        from scipy.special import stdtrit

        mean, count = float(values.mean()), len(values)
        half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / np.sqrt(count))
        return cls(mean, mean - half, mean + half)
