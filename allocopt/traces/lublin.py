"""The workload model of Lublin and Feitelson: sizes, run times and arrivals of rigid jobs on parallel computers.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs",
Journal of Parallel and Distributed Computing 63 (11), 2003, doi:10.1016/S0743-7315(03)00108-4. Where the paper leaves
a detail open, it is as in the program ``lublin99.c`` of the Parallel Workloads Archive, whose constants for jobs of a
single type are the defaults.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.traces.workload import Workload

BUCKETS = 48
"""Parts of a day, half an hour each."""
BUCKET_S = 86_400 // BUCKETS
FIRST_BUCKET = 10
"""Part of the day, from midnight, with which the daily cycle begins: 5 o'clock, when the fewest jobs arrive."""

_POINTS_PER_BUCKET = 8
"""Of the quadrature of a smooth density: exact to about twelve digits."""


@dataclass(frozen=True, slots=True)
class Gamma:
    """A gamma distribution.

    Parameters
    ----------
    shape, scale
        Both positive; the mean is their product.
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        if not (0 < self.shape < math.inf and 0 < self.scale < math.inf):
            raise UsageError(f"a gamma distribution has shape {self.shape} and scale {self.scale}, must be positive")


@dataclass(frozen=True, slots=True)
class LublinModel:
    """Parameters of the model; the names used by the paper and its program stand in parentheses.

    Parameters
    ----------
    serial
        Share of jobs of one processor (``SerialProb``).
    power_of_two
        Share of jobs whose size is rounded to a power of two (``Pow2Prob``).
    log2_least
        Where the logarithm to base 2 of the size of a parallel job begins (``ULow``); it ends at that of the machine.
    log2_below_machine
        How far below that of the machine it becomes rarer (``UHi - UMed``), usually 1.5 to 3.5.
    smaller
        Share of parallel jobs below that place (``UProb``).
    short_run, long_run
        Natural logarithm of the run time in seconds: the two parts of a hyper-gamma distribution (``a1 b1 a2 b2``).
    short_slope, short_intercept
        Share of the first part, linear in the number of processors (``pa``, ``pb``), cut at 0 and 1.
    longest_log_run
        Greatest logarithm of a run time; greater ones are drawn again.
    gap
        Natural logarithm of the seconds between arrivals at an average time of the day (``aarr`` times ``arar``,
        ``barr``).
    longest_log_gap
        Greatest logarithm of such a gap; greater ones are drawn again.
    daily_cycle
        When jobs arrive between 5 o'clock and the next day's, in half hours since a quarter to midnight: the arrivals
        of each half hour are in proportion to the probability of it (``anum``, ``bnum``).

    Raises
    ------
    UsageError
        If a share is not within 0 .. 1, or a distribution lies mostly beyond its greatest value.
    """

    serial: float = 0.244
    power_of_two: float = 0.576
    log2_least: float = 0.8
    log2_below_machine: float = 2.5
    smaller: float = 0.86
    short_run: Gamma = Gamma(4.2, 0.94)
    long_run: Gamma = Gamma(312.0, 0.03)
    short_slope: float = -0.0054
    short_intercept: float = 0.78
    longest_log_run: float = 12.0
    gap: Gamma = Gamma(10.2303 * 1.0225, 0.4871)
    longest_log_gap: float = 13.0
    daily_cycle: Gamma = Gamma(8.1737, 3.9631)

    def __post_init__(self) -> None:
        shares = {"serial": self.serial, "power_of_two": self.power_of_two, "smaller": self.smaller}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise UsageError(f"the share {name} is {share}, must be within 0 .. 1")
        if self.serial + self.power_of_two > 1:
            raise UsageError(f"the shares serial and power_of_two are {self.serial} and {self.power_of_two}, beyond 1")
        for gamma, most in (
            (self.short_run, self.longest_log_run),
            (self.long_run, self.longest_log_run),
            (self.gap, self.longest_log_gap),
        ):
            if gamma.shape * gamma.scale >= most:
                raise UsageError(f"the greatest logarithm is {most}, must be above the mean of {gamma}")


def lublin_workload(
    jobs: int, processors: int, rng: np.random.Generator, model: LublinModel | None = None, name: str = "lublin"
) -> Workload:
    """Draw a workload of the model; it begins at midnight, and its times are whole seconds.

    Estimates are the run times: the model has none.

    Parameters
    ----------
    jobs
        Number of jobs, at least 1; numbered from 1.
    processors
        Size of the machine, at least 10 with the default model.
    rng
        Source of randomness.
    model
        The parameters; the defaults of `LublinModel` if None.
    name
        Name of the workload.

    Raises
    ------
    UsageError
        If there is no job to draw, or the machine is too small for the model.
    """
    if jobs < 1:
        raise UsageError(f"the number of jobs is {jobs}, must be at least 1")
    model = LublinModel() if model is None else model
    sizes = draw_sizes(jobs, processors, rng, model)
    run = draw_run_times(sizes, rng, model)
    submit = arrival_times(draw_gaps(jobs, rng, model), model)
    return Workload(name, np.arange(1, jobs + 1), submit, run, sizes, run, processors)


def draw_sizes(jobs: int, processors: int, rng: np.random.Generator, model: LublinModel) -> IntArray:
    """Draw the processors of each job, shape ``(jobs,)``: a two-stage uniform distribution of their logarithm.

    On a machine whose size is not a power of two, what would be rounded beyond it is rounded down.

    Raises
    ------
    UsageError
        If the machine is too small for the model.
    """
    top = math.log2(max(processors, 1))
    middle = top - model.log2_below_machine
    if middle <= model.log2_least:
        least = math.floor(2 ** (model.log2_least + model.log2_below_machine)) + 1
        raise UsageError(f"the machine has {processors} processors, must have at least {least} for the Lublin model")
    low = rng.random(jobs) < model.smaller
    log2 = rng.uniform(np.where(low, model.log2_least, middle), np.where(low, middle, top))
    kind = rng.random(jobs)
    rounded = kind < model.serial + model.power_of_two
    log2[rounded] = np.minimum(np.rint(log2[rounded]), math.floor(top))
    log2[kind < model.serial] = 0.0
    return np.minimum(np.rint(2.0**log2).astype(np.int64), processors)


def draw_run_times(sizes: IntArray, rng: np.random.Generator, model: LublinModel) -> FloatArray:
    """Draw the run time of jobs of some sizes, whole seconds of at least 1, shape of ``sizes``."""
    short_share = model.short_slope * sizes + model.short_intercept

    def draw() -> FloatArray:
        short = rng.random(len(sizes)) < short_share
        return np.where(short, _drawn(model.short_run, len(sizes), rng), _drawn(model.long_run, len(sizes), rng))

    return np.floor(np.exp(_at_most(model.longest_log_run, draw)))


def draw_gaps(jobs: int, rng: np.random.Generator, model: LublinModel) -> FloatArray:
    """Draw the seconds from each arrival to the next as if all times of the day were alike, shape ``(jobs,)``."""
    return np.exp(_at_most(model.longest_log_gap, lambda: _drawn(model.gap, jobs, rng)))


def arrival_times(gaps_s: FloatArray, model: LublinModel) -> FloatArray:
    """Return arrival times in whole seconds from midnight: time runs faster where the daily cycle has more arrivals.

    Parameters
    ----------
    gaps_s
        Seconds from each arrival to the next as `draw_gaps` draws them, the first from midnight.
    model
        The parameters.
    """
    day_s = BUCKETS * BUCKET_S
    days, within = np.divmod(np.cumsum(gaps_s), day_s)
    passed_s = np.append(0.0, np.cumsum(bucket_weights(model))) * BUCKET_S
    # The last sum is a day but for rounding.
    passed_s[-1] = day_s
    return days * day_s + np.floor(np.interp(within, passed_s, np.arange(BUCKETS + 1) * BUCKET_S))


def bucket_weights(model: LublinModel) -> FloatArray:
    """Arrivals of each half hour from midnight on, relative to the average half hour, shape ``(48,)``."""
    offsets, weights = np.polynomial.legendre.leggauss(_POINTS_PER_BUCKET)
    # As in the program, a half hour is the interval of length 1 around its number, counted from 1 at midnight.
    x = np.arange(FIRST_BUCKET, FIRST_BUCKET + BUCKETS)[:, np.newaxis] + 1 + offsets / 2
    shape, scale = model.daily_cycle.shape, model.daily_cycle.scale
    logarithm = (shape - 1) * np.log(x) - x / scale
    probability = np.exp(logarithm - logarithm.max()) @ weights
    return np.roll(probability / probability.mean(), FIRST_BUCKET)


def _drawn(gamma: Gamma, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw from a gamma distribution, shape ``(count,)``."""
    return rng.gamma(gamma.shape, gamma.scale, count)


def _at_most(most: float, draw: Callable[[], FloatArray]) -> FloatArray:
    """Return what is drawn, where it is greater than ``most`` drawn again."""
    values = draw()
    while (above := values > most).any():
        values[above] = draw()[above]
    return values
