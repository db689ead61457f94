"""Workloads for tests, and what is the same in two of them."""

import numpy as np
from hypothesis import strategies as st

from allocopt.traces.workload import Workload

MACHINE = 8
"""Processors of `random_workload`'s machine."""

Jobs = list[tuple[int, float, float, int, float]]

_IDS = st.integers(-(2**53), 2**53)
_WHOLE = st.integers(1, 2**53).map(float)
_SECONDS = st.floats(0, 2**53, exclude_min=True) | _WHOLE
_SIZES = st.integers(1, 2**53)


def jobs_of(workload: Workload) -> Jobs:
    """Id, submit time, run time, processors and estimate of every job."""
    columns = (workload.ids, workload.submit, workload.run, workload.processors, workload.estimate)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def workload(jobs: Jobs, machine: int | None = None, name: str = "w") -> Workload:
    """Make a workload of its jobs."""
    ids, submit, run, processors, estimate = map(np.array, zip(*jobs, strict=True))
    return Workload(name, ids, submit, run, processors, estimate, machine)


def random_workload(jobs: int, seed: int, *, dependent: bool = False) -> Workload:
    """Many jobs at once on a small machine, with many equal times and wrong estimates."""
    rng = np.random.default_rng(seed)
    ids = np.arange(1, jobs + 1)
    preceding = np.where(rng.random(jobs) < 0.3, rng.integers(0, ids), 0) if dependent else np.zeros(jobs, dtype=int)
    preceding[preceding == 0] = -1
    return Workload(
        "random",
        ids,
        np.cumsum(rng.integers(0, 12, jobs)).astype(float) + 100.0,
        rng.integers(1, 40, jobs).astype(float),
        np.minimum(rng.geometric(0.35, jobs), MACHINE),
        rng.integers(1, 40, jobs).astype(float),
        MACHINE,
        preceding=preceding,
        think_s=np.where(preceding > 0, rng.integers(0, 9, jobs), 0.0),
    )


def busy_days(seed: int, jobs: int, days: float, machine: int, name: str = "busy", sizes: float = 0.1) -> Workload:
    """Draw jobs of some days, most short and some long, estimates rough; the larger ``sizes``, the smaller they are."""
    rng = np.random.default_rng(seed)
    run = np.where(rng.random(jobs) < 0.8, rng.uniform(600, 7200, jobs), rng.uniform(20_000, 50_000, jobs)).round()
    submit = np.floor(np.sort(rng.uniform(0, days * 86_400.0, jobs)))
    asked = np.minimum(rng.geometric(sizes, jobs), machine)
    estimate = (run * rng.uniform(1, 3, jobs)).round()
    return Workload(name, np.arange(1, jobs + 1), submit, run, asked, estimate, machine)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw a workload of any numbers that a file can hold."""
    ids = draw(st.lists(_IDS, min_size=1, max_size=8, unique=True))
    jobs = [(job, draw(_SECONDS | st.just(0.0)), draw(_SECONDS), draw(_SIZES), draw(_SECONDS)) for job in ids]
    return workload(jobs, draw(st.none() | _SIZES), draw(st.text(max_size=5)))


@st.composite
def crowds(draw: st.DrawFn, machine: int, most: int = 20) -> Workload:
    """Few jobs with small whole times, so that many things happen at once."""
    few, sizes, times = st.integers(1, 10), st.integers(1, machine), st.integers(0, 12).map(float)
    rows = draw(st.lists(st.tuples(times, few.map(float), sizes, few.map(float)), min_size=1, max_size=most))
    return workload([(job, *row) for job, row in enumerate(rows)], machine)
