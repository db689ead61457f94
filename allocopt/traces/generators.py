"""Generators of workloads: the uniform one of the NSA paper, and the Lublin-Feitelson model.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs",
Journal of Parallel and Distributed Computing 63 (11), 2003, doi:10.1016/S0743-7315(03)00108-4. Details that
the paper leaves open follow the program ``lublin99.c`` of the Parallel Workloads Archive. Its constants for jobs of a
single type are the defaults.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.traces.workload import Workload

Range = tuple[int, int]
"""Smallest and largest value, both included."""


def uniform_workload(
    jobs: int,
    rng: np.random.Generator,
    nodes: Range = (1, 40),
    run_s: Range = (10, 1800),
    gap_s: Range = (5, 30),
    name: str = "paper",
) -> Workload:
    """Draw the NSA paper's workload: everything uniform and integer.

    The default ranges of nodes and of run times in seconds are those of section VI-A. The paper does not give the range
    of the seconds between arrivals; it is taken from the workload file that its authors published. The first gap counts
    from 0. A longer workload from the same generator state begins with the shorter one. Raises `UsageError` if ``jobs``
    is below 1, or a range is empty or begins too low.
    """
    if jobs < 1:
        raise UsageError(f"the number of jobs is {jobs}, must be at least 1")
    check_range("nodes", nodes, 1)
    check_range("run time", run_s, 1)
    check_range("time between arrivals", gap_s, 0)
    # Draw job by job, so that the first jobs do not depend on the number of jobs.
    low, high = zip(gap_s, run_s, nodes, strict=True)
    gaps, runs, sizes = rng.integers(low, high, size=(jobs, 3), endpoint=True).T
    return Workload(name, np.arange(1, jobs + 1), np.cumsum(gaps), runs, sizes, runs)


def check_range(what: str, given: Range, least: int) -> None:
    """Raise `UsageError` if a range is empty or begins below ``least``."""
    low, high = given
    if not least <= low <= high:
        raise UsageError(f"the range of {what} is {low}..{high}, must not be empty and must begin at {least} or more")


# Parts of a day, half an hour each.
_BUCKETS = 48
_BUCKET_S = 86_400 // _BUCKETS
# Half hour, counted from midnight, with which the daily cycle begins: 5 o'clock, when the fewest jobs arrive.
_FIRST_BUCKET = 10

# Points of the Gauss-Legendre quadrature: exact to about twelve digits, as the density is smooth.
_POINTS_PER_BUCKET = 8


@dataclass(frozen=True, slots=True)
class Gamma:
    """A gamma distribution; shape and scale are positive, the mean is their product."""

    shape: float
    scale: float

    def __post_init__(self) -> None:
        if not (0 < self.shape < math.inf and 0 < self.scale < math.inf):
            raise UsageError(f"a gamma distribution has shape {self.shape} and scale {self.scale}, must be positive")

    def drawn(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``count`` values."""
        return rng.gamma(self.shape, self.scale, count)


@dataclass(frozen=True, slots=True)
class LublinModel:
    """Parameters of the Lublin-Feitelson model; the names in the paper and its program are in parentheses."""

    # Share of jobs of one processor (SerialProb), and of jobs whose size is rounded to a power of two (Pow2Prob).
    serial: float = 0.244
    power_of_two: float = 0.576
    # Least log2 of the size of a parallel job (ULow); the greatest is log2 of the machine's size.
    log2_least: float = 0.8
    # Distance from the greatest log2 to the one above which sizes become rarer (UHi - UMed), usually 1.5 to 3.5.
    log2_below_machine: float = 2.5
    smaller: float = 0.86  # share of parallel jobs below that threshold (UProb)
    # Natural logarithm of the run time in seconds: the two parts of a hyper-gamma distribution (a1 b1 a2 b2).
    short_run: Gamma = Gamma(4.2, 0.94)
    long_run: Gamma = Gamma(312.0, 0.03)
    # Share of the first part, linear in the number of processors (pa, pb), limited to 0 .. 1.
    short_slope: float = -0.0054
    short_intercept: float = 0.78
    # Greatest logarithm of a run time; greater ones are drawn again. `longest_log_gap` limits gaps in the same way.
    longest_log_run: float = 12.0
    # Natural logarithm of the seconds between arrivals at an average time of the day (aarr times arar, barr).
    gap: Gamma = Gamma(10.2303 * 1.0225, 0.4871)
    longest_log_gap: float = 13.0
    # Arrivals over a day that begins at 5 o'clock (anum, bnum): each half hour has a share in proportion to its
    # probability. The variable of the distribution is the time since 23:45, in half hours.
    daily_cycle: Gamma = Gamma(8.1737, 3.9631)

    def __post_init__(self) -> None:
        shares = {"serial": self.serial, "power_of_two": self.power_of_two, "smaller": self.smaller}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise UsageError(f"the share {name} is {share}, must be within 0 .. 1")
        if self.serial + self.power_of_two > 1:
            raise UsageError(
                f"the shares serial and power_of_two are {self.serial} and {self.power_of_two}, together above 1"
            )
        logs = (self.longest_log_run, self.longest_log_run, self.longest_log_gap)
        for gamma, most in zip((self.short_run, self.long_run, self.gap), logs, strict=True):
            if gamma.shape * gamma.scale >= most:
                raise UsageError(f"the greatest logarithm is {most}, must be above the mean of {gamma}")

    def draw_sizes(self, jobs: int, processors: int, rng: np.random.Generator) -> IntArray:
        """Draw the processors of each job, shape ``(jobs,)``; their logarithm has a two-stage uniform distribution.

        A size that would be rounded up beyond the machine's size is rounded down. Raises `UsageError` if the machine is
        too small for the model.
        """
        top = math.log2(max(processors, 1))
        middle = top - self.log2_below_machine
        if middle <= self.log2_least:
            least = math.floor(2 ** (self.log2_least + self.log2_below_machine)) + 1
            fault = f"has {processors} processors, must have at least {least} for the Lublin model"
            raise UsageError(f"the machine {fault}")
        low = rng.random(jobs) < self.smaller
        log2 = rng.uniform(np.where(low, self.log2_least, middle), np.where(low, middle, top))
        kind = rng.random(jobs)
        rounded = kind < self.serial + self.power_of_two
        log2[rounded] = np.minimum(np.rint(log2[rounded]), math.floor(top))
        log2[kind < self.serial] = 0.0
        return np.minimum(np.rint(2.0**log2).astype(np.int64), processors)

    def draw_run_times(self, sizes: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw a run time in whole seconds, at least 1, for a job of each size; the shape is that of ``sizes``."""
        short_share = self.short_slope * sizes + self.short_intercept

        def draw() -> FloatArray:
            short = rng.random(len(sizes)) < short_share
            return np.where(short, self.short_run.drawn(len(sizes), rng), self.long_run.drawn(len(sizes), rng))

        return np.floor(np.exp(_at_most(self.longest_log_run, draw)))

    def draw_gaps(self, jobs: int, rng: np.random.Generator) -> FloatArray:
        """Draw the seconds between arrivals without the daily cycle, shape ``(jobs,)``."""
        return np.exp(_at_most(self.longest_log_gap, lambda: self.gap.drawn(jobs, rng)))

    def arrival_times(self, gaps_s: FloatArray) -> FloatArray:
        """Return arrival times in whole seconds from midnight; gaps are stretched and compressed by the daily cycle."""
        day_s = _BUCKETS * _BUCKET_S
        days, within = np.divmod(np.cumsum(gaps_s), day_s)
        passed_s = np.append(0.0, np.cumsum(self.bucket_weights())) * _BUCKET_S
        # The last sum is a day, except for rounding errors.
        passed_s[-1] = day_s
        return days * day_s + np.floor(np.interp(within, passed_s, np.arange(_BUCKETS + 1) * _BUCKET_S))

    def bucket_weights(self) -> FloatArray:
        """Return the arrivals of each half hour from midnight on, relative to the average, shape ``(48,)``."""
        offsets, weights = np.polynomial.legendre.leggauss(_POINTS_PER_BUCKET)
        # As in the program, half hour i (from 1 at midnight) is the interval of length 1 around i.
        x = np.arange(_FIRST_BUCKET, _FIRST_BUCKET + _BUCKETS)[:, np.newaxis] + 1 + offsets / 2
        shape, scale = self.daily_cycle.shape, self.daily_cycle.scale
        logarithm = (shape - 1) * np.log(x) - x / scale
        # Subtract the largest logarithm so that exp does not overflow; the division by the mean cancels it.
        probability = np.exp(logarithm - logarithm.max()) @ weights
        return np.roll(probability / probability.mean(), _FIRST_BUCKET)


def lublin_workload(
    jobs: int, processors: int, rng: np.random.Generator, model: LublinModel | None = None, name: str = "lublin"
) -> Workload:
    """Draw a workload of the model that begins at midnight, in whole seconds; estimates equal run times."""
    if jobs < 1:
        raise UsageError(f"the number of jobs is {jobs}, must be at least 1")
    model = LublinModel() if model is None else model
    sizes = model.draw_sizes(jobs, processors, rng)
    run = model.draw_run_times(sizes, rng)
    submit = model.arrival_times(model.draw_gaps(jobs, rng))
    return Workload(name, np.arange(1, jobs + 1), submit, run, sizes, run, processors)


def _at_most(most: float, draw: Callable[[], FloatArray]) -> FloatArray:
    # Draw whole arrays again, but replace only values above the limit. The program draws single values again, which
    # gives the same distribution.
    values = draw()
    while (above := values > most).any():
        values[above] = draw()[above]
    return values
