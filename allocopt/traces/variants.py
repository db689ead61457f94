"""Variants of a trace whose run times differ a little, and the mean of a measure over variants with its interval."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.traces.workload import Workload

JITTER = 0.05
"""Default spread of run times: the standard deviation of the logarithm of the random factors."""
CONFIDENCE = 0.95


def varied_run_times(workload: Workload, rng: np.random.Generator, jitter: float = JITTER) -> Workload:
    """Return the jobs with run times multiplied by random factors.

    Run times stay between 1 s and the estimate, which does not change. In a busy schedule one changed run time changes
    everything after it. So the mean over variants shows the effect of a policy better than a single run.

    Parameters
    ----------
    workload
        The jobs.
    rng
        Source of randomness.
    jitter
        Standard deviation of the logarithm of the factors.
    """
    run = np.rint(workload.run * np.exp(jitter * rng.standard_normal(len(workload))))
    return replace(workload, run=np.clip(run, 1.0, np.maximum(workload.estimate, 1.0)))


class Interval(NamedTuple):
    """A mean over variants, and the ends of its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> "Interval":
        """Return the interval of two or more values, by Student's t distribution. Needs scipy."""
        from scipy.special import stdtrit

        mean, count = float(values.mean()), len(values)
        half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / np.sqrt(count))
        return cls(mean, mean - half, mean + half)
