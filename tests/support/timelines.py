"""Schedules for the tests of reports."""

import numpy as np

from allocopt.report.html.timeline import Timeline


def timeline(jobs: int, size: int = 32, seed: int = 0) -> Timeline:
    """Make a schedule of random jobs that fit the machine one after the other."""
    random = np.random.default_rng(seed)
    submit = np.sort(random.integers(0, 60 * jobs, jobs)).astype(float)
    processors = random.integers(1, size // 2 + 1, jobs)
    run = random.integers(1, 4_000, jobs).astype(float)
    free = np.zeros(size)
    start = np.empty(jobs)
    for job in range(jobs):
        own = np.argsort(free, kind="stable")[: processors[job]]
        start[job] = max(submit[job], free[own].max())
        free[own] = start[job] + run[job]
    return Timeline([f"j{job}" for job in range(jobs)], submit, start, start + run, processors, size)
