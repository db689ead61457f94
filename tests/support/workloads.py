"""Workloads for tests, and what is the same in two of them."""

import numpy as np
from hypothesis import strategies as st

from allocopt.traces.workload import Workload

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
