"""Statistics over jobs, all of them or by class of size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.simulator.schedule import JobTimes

CLASS_RATIO = 4
"""Largest size of a class over that of the class before."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How one measure is distributed over jobs.

    Parameters
    ----------
    mean, median, maximum
        As named.
    percentile_95
        What 95 % of the jobs do not exceed, interpolated linearly between jobs as the median is.
    """

    mean: float
    median: float
    percentile_95: float
    maximum: float

    @classmethod
    def of(cls, values: FloatArray) -> "Spread":
        """Summarize at least one value."""
        median, percentile, maximum = np.percentile(values, [50, 95, 100]).tolist()
        return cls(float(values.mean()), median, percentile, maximum)


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """Some jobs, summarized.

    Parameters
    ----------
    jobs
        How many.
    wait_s, response_s, slowdown, bounded_slowdown
        Distributions of the measures of `JobTimes`.
    starved
        Number of jobs that waited longer than the threshold.
    mean_hop_cost
        Mean hop cost of the jobs of several nodes; None where there are none or nodes are not known.
    """

    jobs: int
    wait_s: Spread
    response_s: Spread
    slowdown: Spread
    bounded_slowdown: Spread
    starved: int
    mean_hop_cost: float | None


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The jobs whose number of processors lies within limits.

    Parameters
    ----------
    fewest, most
        The limits, both included.
    statistics
        Their measures.
    """

    fewest: int
    most: int
    statistics: JobStatistics


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredJobs:
    """Jobs with all that is measured of each, arrays of shape ``(n,)``.

    Parameters
    ----------
    processors
        Size of each job.
    times
        What it experienced.
    starved
        Whether it waited longer than the threshold.
    hop_costs
        Its hop cost, NaN for a job of one node; None where nodes are not known.
    """

    processors: IntArray
    times: JobTimes
    starved: NDArray[np.bool_]
    hop_costs: FloatArray | None

    def statistics(self, which: NDArray[np.bool_] | slice) -> JobStatistics:
        """Summarize some of the jobs, at least one."""
        times = self.times
        costs = np.empty(0) if self.hop_costs is None else self.hop_costs[which]
        costs = costs[~np.isnan(costs)]
        return JobStatistics(
            len(times.wait_s[which]),
            Spread.of(times.wait_s[which]),
            Spread.of(times.response_s[which]),
            Spread.of(times.slowdown[which]),
            Spread.of(times.bounded_slowdown[which]),
            int(self.starved[which].sum()),
            float(costs.mean()) if len(costs) else None,
        )

    def by_size(self, which: slice) -> tuple[SizeClass, ...]:
        """Summarize some of the jobs by size, in powers of four: 1, 2 to 4, 5 to 16, 17 to 64, ... processors.

        Classes without jobs are left out.
        """
        kept = np.zeros(len(self.processors), dtype=np.bool_)
        kept[which] = True
        limits = CLASS_RATIO ** np.arange(32, dtype=np.int64)
        classes = np.searchsorted(limits, self.processors)
        return tuple(
            SizeClass(
                1 if number == 0 else int(limits[number - 1]) + 1,
                int(limits[number]),
                self.statistics(kept & (classes == number)),
            )
            for number in np.unique(classes[kept]).tolist()
        )
