"""Jobsets of the three training phases, and the days of a trace from which they are drawn (DRAS paper, section 3.3).

A *sampled* jobset draws jobs at random, which arrive as a Poisson process with the trace's mean gap. A *real* one is a
week of the trace. A *synthetic* one is a week whose arrivals follow the trace's weekly cycle by hour, and whose sizes,
run times and accuracies of estimates are drawn from the trace, at the trace's load or a given one. Held-out days,
counted from the trace's first midnight, are used only in evaluations: no jobset and no fitted model sees them.
"""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.traces.weekly_cycle import DAY_S, WEEK_DAYS, arrivals, weekly_cycle
from allocopt.traces.workload import Workload

WEEK_S = WEEK_DAYS * DAY_S
EVALUATION_SEEDS = range(9000, 9020)
"""Seeds of `SyntheticModel.span` that are reserved for evaluations; trainings refuse them."""
EVALUATION_LOAD = 0.85
RUN_JITTER = 0.2  # Standard deviation of the logarithm of the factor between drawn run times and those of the trace
ESTIMATE_STEP_S = 300.0  # Estimates are rounded up to a multiple of this
HELD_OUT_SHARE = 0.2  # Share of a trace that is held out, at its end, if its name is not in `KNOWN`
KNOWN = {"Theta-2018-01": range(7, 14)}
"""Held-out days, counted from 0, by the beginning of the trace's name: the busiest week of the Theta trace."""


@dataclass(frozen=True, slots=True)
class Split:
    """A trace and its held-out days, counted from 0."""

    workload: Workload
    held_out: range

    @classmethod
    def of(cls, workload: Workload) -> "Split":
        """Hold out the `KNOWN` days of a trace or, without any, about its last fifth, from a multiple of 7 days on."""
        n_days = int(workload.submit.max() // DAY_S) + 1
        last = range(int(n_days * (1 - HELD_OUT_SHARE)) // WEEK_DAYS * WEEK_DAYS, n_days)
        return cls(workload, next((days for known, days in KNOWN.items() if workload.name.startswith(known)), last))

    @property
    def days(self) -> IntArray:
        """Day of every job, shape ``(n,)``."""
        return np.asarray(self.workload.submit // DAY_S, dtype=np.int64)

    def spans(self, length: int = WEEK_DAYS) -> tuple[Workload, ...]:
        """Return the spans of ``length`` days, except nearly empty ones and those with held-out days.

        Raises `UsageError` if every span has held-out days.
        """
        found, days = [], self.days
        for first in range(0, int(days.max()) + 1, length):
            chosen = np.flatnonzero((days >= first) & (days < first + length))
            if len(chosen) and not set(self.held_out).intersection(range(first, first + length)):
                found.append(self.workload.subset(chosen, first * DAY_S, f"{self.workload.name}, day {first + 1} on"))
        if not found:
            raise UsageError(f"{self.workload.name}: no whole span of {length} days is left to train on")
        usual = float(np.median([len(span) for span in found]))
        return tuple(span for span in found if len(span) >= usual / 10)

    def training(self) -> Workload:
        """Return all jobs of days that are not held out, with unchanged times."""
        chosen = np.flatnonzero(~np.isin(self.days, self.held_out))
        return self.workload.subset(chosen, name=f"{self.workload.name}, training days")

    def evaluation(self) -> Workload:
        """Return the jobs of the held-out days; times count from the first of these days."""
        chosen = np.flatnonzero(np.isin(self.days, self.held_out))
        begin_s = float(self.days[chosen].min() * DAY_S)
        return self.workload.subset(chosen, begin_s, f"{self.workload.name}, held-out days")


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticModel:
    """Model that draws jobsets that resemble a trace."""

    workload: Workload  # Training days of a trace, whose day 0 is the first day of a week
    processors: int  # Size of the machine
    weights: FloatArray  # Share of the arrivals in each hour of the week, shape ``(168,)``

    @classmethod
    def fitted(cls, workload: Workload, processors: int) -> "SyntheticModel":
        """Fit the arrivals; see `allocopt.traces.weekly_cycle.weekly_cycle`."""
        return cls(workload, processors, weekly_cycle(workload.submit))

    def sampled(self, n_jobs: int, rng: np.random.Generator, name: str = "sampled") -> Workload:
        """Draw jobs of the trace at random, with replacement; they arrive as a Poisson process."""
        # Compute the mean gap between arrivals only over days with arrivals, because traces may lack days.
        workload = self.workload
        mean_gap_s = len(np.unique(workload.submit // DAY_S)) * DAY_S / len(workload)
        chosen = rng.integers(len(workload), size=n_jobs)
        submit = np.cumsum(rng.exponential(mean_gap_s, n_jobs))
        return _jobset(workload, submit - submit[0], chosen, workload.run[chosen], workload.estimate[chosen], name)

    def span(self, seed: int, index: int, load: float | None, days: int = WEEK_DAYS) -> Workload:
        """Draw a span of days at a load, None for the trace's; raises `UsageError` if the load is not positive.

        Spans of successive indices follow each other through the week: a span begins on the day of the week after the
        last day of the previous span.
        """
        if load is not None and not load > 0:
            raise UsageError(f"the load is {load}, must be positive")
        workload, rng = self.workload, np.random.default_rng((seed, index))
        if load is None:
            area_s = float((np.minimum(workload.run, workload.estimate) * workload.processors).sum())
            load = area_s / (len(np.unique(workload.submit // DAY_S)) * DAY_S * self.processors)
        # Draw as many jobs as come closest to the load.
        area_s, limit = load * days * DAY_S * self.processors, float(workload.estimate.max())
        mean = float((np.minimum(workload.run, workload.estimate) * workload.processors).mean())
        n = int(3 * area_s / mean) + 100
        chosen = rng.integers(len(workload), size=n)
        factor = np.exp(RUN_JITTER * rng.standard_normal(n))
        run = np.clip(np.rint(workload.run[chosen] * factor), 1.0, limit)
        # Take the ratio of run time to estimate from a job with a similar run time.
        order = np.argsort(workload.run, kind="stable")
        width = max(len(order) // 50, 1)
        near = np.clip(np.argsort(order)[chosen] + rng.integers(-width, width + 1, n), 0, len(order) - 1)
        accuracy = workload.run[order[near]] / workload.estimate[order[near]]
        estimate = np.clip(np.ceil(run / accuracy / ESTIMATE_STEP_S) * ESTIMATE_STEP_S, 1.0, limit)
        areas = np.cumsum(np.minimum(run, estimate) * workload.processors[chosen])
        kept = int(np.argmin(np.abs(areas - area_s))) + 1
        chosen, run, estimate = chosen[:kept], run[:kept], estimate[:kept]
        submit = arrivals(self.weights, len(chosen), days, rng, index * days % WEEK_DAYS)
        return _jobset(workload, np.floor(submit), chosen, run, estimate, f"synthetic-{seed}-{index}")


def _jobset(
    workload: Workload, submit: FloatArray, chosen: IntArray, run: FloatArray, estimate: FloatArray, name: str
) -> Workload:
    ids = np.arange(1, len(chosen) + 1)
    return Workload(name, ids, submit, run, workload.processors[chosen], estimate, workload.machine_processors)
