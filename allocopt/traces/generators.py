"""Generators of workloads."""

import numpy as np

from allocopt.errors import UsageError
from allocopt.traces.workload import Workload

Range = tuple[int, int]
"""Smallest and largest value, both possible."""


def uniform_workload(
    jobs: int,
    rng: np.random.Generator,
    nodes: Range = (1, 40),
    run_s: Range = (10, 1800),
    gap_s: Range = (5, 30),
    name: str = "paper",
) -> Workload:
    """Draw the NSA paper's workload: everything uniform and integer.

    Nodes and run times are those of section VI-A; the paper does not print the times between arrivals, whose range
    here is that of the workload file its authors published. A longer workload from the same generator state begins
    with the shorter one.

    Parameters
    ----------
    jobs
        Number of jobs, at least 1; numbered from 1.
    rng
        Source of randomness.
    nodes
        Range of the number of whole nodes of a job.
    run_s
        Range of the run time, in seconds.
    gap_s
        Range of the time from one arrival to the next (from 0 to the first), in seconds.
    name
        Name of the workload.

    Raises
    ------
    UsageError
        If there is no job to draw, or a range is empty or begins too low.
    """
    if jobs < 1:
        raise UsageError(f"the number of jobs is {jobs}, must be at least 1")
    check_range("nodes", nodes, 1)
    check_range("run time", run_s, 1)
    check_range("time between arrivals", gap_s, 0)
    low, high = zip(gap_s, run_s, nodes, strict=True)
    gaps, runs, sizes = rng.integers(low, high, size=(jobs, 3), endpoint=True).T
    return Workload(name, np.arange(1, jobs + 1), np.cumsum(gaps), runs, sizes, runs)


def check_range(what: str, given: Range, least: int) -> None:
    """Raise `UsageError` unless a range holds a value and none below the least that makes sense."""
    low, high = given
    if not least <= low <= high:
        raise UsageError(f"the range of {what} is {low}..{high}, must rise and begin at {least} or more")
