"""Jobsets of the three phases of training: sampled, real and synthetic (DRAS paper, section 3.3).

A *sampled* jobset draws jobs at random and lets them arrive as a Poisson process with the trace's mean gap. A *real*
one is a week of the trace. A *synthetic* one is a week whose arrivals follow the trace's hours of the day and days of
the week, and whose sizes, run times and accuracies of estimates are drawn from the trace's, at a load that may be
asked for. All are drawn from training days only (`learned.dras.traces`).
"""

from dataclasses import dataclass, replace

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.traces.workload import Workload
from learned.dras.traces import DAY_S, WEEK_DAYS

HOUR_S = 3600.0
WEEK_HOURS = 24 * WEEK_DAYS
WEEK_S = WEEK_DAYS * DAY_S

EVALUATION_SEEDS = range(9000, 9020)
"""Seeds of the synthetic weeks that evaluations own; `SyntheticModel.week` draws them, trainings refuse them."""

EVALUATION_LOAD = 0.85

RUN_JITTER = 0.2
"""Standard deviation of the logarithm by which drawn run times differ from those of the trace."""

ESTIMATE_STEP_S = 300.0
"""Users' estimates are rounded up to it."""


def check_jobset_seed(seed: int) -> None:
    """Raise `UsageError` for a seed whose synthetic weeks evaluations own, or a negative one."""
    if seed < 0:
        raise UsageError(f"the seed is {seed}, must not be negative")
    if seed in EVALUATION_SEEDS:
        first, last = EVALUATION_SEEDS[0], EVALUATION_SEEDS[-1]
        raise UsageError(f"seed {seed} is reserved: synthetic weeks of seeds {first} to {last} are for evaluation")


def mean_gap_s(workload: Workload) -> float:
    """Mean time between arrivals on the days on which jobs arrived, in seconds."""
    n_days = len(np.unique(workload.submit // DAY_S))
    return n_days * DAY_S / len(workload)


def sampled_jobset(workload: Workload, n_jobs: int, rng: np.random.Generator, name: str = "sampled") -> Workload:
    """Draw jobs at random, with replacement; they arrive as a Poisson process.

    Parameters
    ----------
    workload
        Training days of a trace.
    n_jobs
        Number of jobs, at least 1.
    rng
        Source of randomness.
    name
        Name of the jobset.
    """
    chosen = rng.integers(len(workload), size=n_jobs)
    submit = np.cumsum(rng.exponential(mean_gap_s(workload), n_jobs))
    return _jobset(workload, submit - submit[0], chosen, workload.run[chosen], workload.estimate[chosen], name)


def varied_jobset(workload: Workload, rng: np.random.Generator, jitter: float = RUN_JITTER) -> Workload:
    """Return the jobs with somewhat longer or shorter run times, of at least a second; estimates stay.

    One such change moves all that follows in a busy schedule, so several variants of a jobset tell what a policy is
    worth better than the jobset alone.

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


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticModel:
    """What synthetic weeks are drawn from.

    Parameters
    ----------
    workload
        Training days of a trace, whose day 0 is the first day of a week.
    processors
        Size of the machine.
    weights
        Share of the arrivals in every hour of the week, shape ``(168,)``.
    """

    workload: Workload
    processors: int
    weights: FloatArray

    @classmethod
    def fitted(cls, workload: Workload, processors: int) -> "SyntheticModel":
        """Fit the arrivals: the rate of an hour of the week is the product of the hour's and the weekday's."""
        hours = (workload.submit // HOUR_S).astype(np.int64)
        days = np.unique(workload.submit // DAY_S).astype(np.int64)
        hour = np.bincount(hours % 24, minlength=24) + 1.0
        seen = np.bincount(days % WEEK_DAYS, minlength=WEEK_DAYS)
        weekday = (np.bincount(hours // 24 % WEEK_DAYS, minlength=WEEK_DAYS) + 1.0) / np.maximum(seen, 1)
        weights = np.outer(weekday, hour).ravel()
        return cls(workload, processors, weights / weights.sum())

    def week(self, seed: int, index: int, load: float | None, weeks: int = 1) -> Workload:
        """Draw a week, or several in a row.

        Parameters
        ----------
        seed, index
            What fixes it.
        load
            Share of the machine's processor time that its jobs ask for, positive; None for that of the trace.
        weeks
            Number of weeks, at least 1.

        Raises
        ------
        UsageError
            If the load is not positive.
        """
        if load is not None and not load > 0:
            raise UsageError(f"the load is {load}, must be positive")
        rng = np.random.default_rng((seed, index))
        chosen, run, estimate = self._jobs((self._load() if load is None else load) * weeks, rng)
        hours = rng.choice(WEEK_HOURS * weeks, size=len(chosen), p=np.tile(self.weights, weeks) / weeks)
        submit = np.sort(hours * HOUR_S + rng.uniform(0.0, HOUR_S, len(chosen)))
        return _jobset(self.workload, np.floor(submit), chosen, run, estimate, f"synthetic-{seed}-{index}")

    def _load(self) -> float:
        """Return the load of the training days."""
        workload = self.workload
        n_days = len(np.unique(workload.submit // DAY_S))
        area = float((np.minimum(workload.run, workload.estimate) * workload.processors).sum())
        return area / (n_days * DAY_S * self.processors)

    def _jobs(self, load: float, rng: np.random.Generator) -> tuple[IntArray, FloatArray, FloatArray]:
        """Draw jobs until they come closest to the load of a week; return rows of the trace, run times, estimates."""
        workload = self.workload
        area_s = load * WEEK_S * self.processors
        mean = float((np.minimum(workload.run, workload.estimate) * workload.processors).mean())
        n = int(3 * area_s / mean) + 100
        chosen = rng.integers(len(workload), size=n)
        limit = float(workload.estimate.max())
        factor = np.exp(RUN_JITTER * rng.standard_normal(n))
        run = np.clip(np.rint(workload.run[chosen] * factor), 1.0, limit)
        asked = np.ceil(run / self._accuracy(chosen, rng) / ESTIMATE_STEP_S) * ESTIMATE_STEP_S
        estimate = np.clip(asked, 1.0, limit)
        areas = np.cumsum(np.minimum(run, estimate) * workload.processors[chosen])
        kept = int(np.argmin(np.abs(areas - area_s))) + 1
        return chosen[:kept], run[:kept], estimate[:kept]

    def _accuracy(self, chosen: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw run time over estimate: that of a job whose run time is close to the chosen one's."""
        workload = self.workload
        order = np.argsort(workload.run, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        width = max(len(order) // 50, 1)
        near = np.clip(place[chosen] + rng.integers(-width, width + 1, len(chosen)), 0, len(order) - 1)
        other = order[near]
        return np.asarray(workload.run[other] / workload.estimate[other])


def _jobset(
    workload: Workload, submit: FloatArray, chosen: IntArray, run: FloatArray, estimate: FloatArray, name: str
) -> Workload:
    """Return a workload of the sizes of chosen rows, numbered from 1."""
    ids = np.arange(1, len(chosen) + 1)
    return Workload(name, ids, submit, run, workload.processors[chosen], estimate, workload.machine_processors)
