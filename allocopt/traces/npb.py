"""Batches of NAS parallel benchmarks, run serially, as IRMaSim was validated with (its section VI and Table IV)."""

from typing import NamedTuple

import numpy as np

from allocopt.errors import UsageError
from allocopt.traces.tasks import TaskWorkload


class Benchmark(NamedTuple):
    """What a benchmark executes.

    Parameters
    ----------
    name
        Its name and class.
    instructions
        Instructions that it executes.
    ipc
        Instructions per cycle.
    volume_mb
        Data that it reads from and writes to memory, in MB.
    """

    name: str
    instructions: float
    ipc: float
    volume_mb: float


TABLE_FOUR = (
    Benchmark("bt.C", 633.50e10, 3.06, 5.17e6),
    Benchmark("cg.C", 60.31e10, 1.10, 7.30e6),
    Benchmark("ep.C", 80.94e10, 1.16, 0.21e6),
    Benchmark("is.C", 6.43e10, 0.95, 0.07e6),
    Benchmark("lu.C", 370.25e10, 2.20, 8.70e6),
    Benchmark("sp.C", 356.10e10, 2.74, 9.60e6),
    Benchmark("ua.C", 312.57e10, 2.30, 4.32e6),
)
"""The benchmarks of Table IV."""
REFERENCE_GHZ = 3.4
"""Clock at which a job takes alone what its user estimates."""
SPAN_S = 120.0
"""Seconds within which the jobs of a batch are submitted: the paper says minutes."""


def npb_batch(jobs: int, rng: np.random.Generator, span_s: float = SPAN_S) -> TaskWorkload:
    """Return a batch of serial jobs, each a benchmark of Table IV drawn at random.

    Parameters
    ----------
    jobs
        Number of jobs, at least 1.
    rng
        Where randomness comes from.
    span_s
        Seconds within which they are submitted, uniformly, not negative.

    Raises
    ------
    UsageError
        If there is not at least one job, or the span is negative.
    """
    if jobs < 1 or not span_s >= 0:
        raise UsageError(f"a batch has at least 1 job, and a span that is not negative, not {jobs} in {span_s:g} s")
    drawn = rng.integers(len(TABLE_FOUR), size=jobs)
    chosen = [TABLE_FOUR[number] for number in drawn.tolist()]
    instructions, ipc = (np.array([getattr(one, field) for one in chosen]) for field in ("instructions", "ipc"))
    ones = np.ones(jobs, dtype=np.int64)
    return TaskWorkload(
        f"npb-{jobs}",
        tuple(f"job{number}" for number in range(1, jobs + 1)),
        np.sort(rng.uniform(0.0, span_s, size=jobs)),
        ones,
        ones,
        instructions,
        ipc,
        np.zeros(jobs),
        np.array([one.volume_mb for one in chosen]),
        instructions / ipc / (REFERENCE_GHZ * 1e9),
        tuple(one.name for one in chosen),
    )
