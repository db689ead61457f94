"""Fits the coefficients of the locality model to measured jobs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import InvalidProblemError
from allocopt.simulator.locality import Line, PenaltyTable, Policy, WorkloadType

FEWEST = 2
"""Different numbers of GPUs that a line needs."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A job that ran.

    Parameters
    ----------
    workload
        What bounds its speed.
    policy
        How it was allocated.
    gpus
        GPUs that it had.
    requested_s
        Seconds that it was requested for.
    service_s
        Seconds that it took.
    """

    workload: WorkloadType
    policy: Policy
    gpus: int
    requested_s: float
    service_s: float


@dataclass(frozen=True, slots=True)
class FittedLine:
    """The line of a workload type and a policy, and how well it fits.

    Parameters
    ----------
    workload, policy
        Which one it is.
    line
        Coefficients in seconds.
    jobs
        Number of measured jobs.
    residual_s
        Root of the mean square of what the line leaves unexplained, in seconds.
    largest_residual_s
        The largest of these, without its sign.
    explained
        Share of the penalties' variance that the line explains; None where they are all equal.
    """

    workload: WorkloadType
    policy: Policy
    line: Line
    jobs: int
    residual_s: float
    largest_residual_s: float
    explained: float | None


def fit(jobs: Sequence[Measured]) -> list[FittedLine]:
    """Fit a line to the penalties of each workload type and policy, by linear least squares.

    Parameters
    ----------
    jobs
        Measured jobs; unknown ones need not be among them.

    Raises
    ------
    InvalidProblemError
        If a type and policy, ``UNKNOWN`` aside, has not been measured with at least two numbers of GPUs.
    """
    return list(_fits(jobs))


def table_of(fitted: Sequence[FittedLine]) -> PenaltyTable:
    """Return the fitted lines as a table, in seconds."""
    return PenaltyTable({(one.workload, one.policy): one.line for one in fitted})


def _fits(jobs: Sequence[Measured]) -> Iterator[FittedLine]:
    """Yield the fitted lines."""
    for workload in WorkloadType:
        for policy in Policy:
            chosen = [job for job in jobs if job.workload == workload and job.policy == policy]
            if chosen or workload is not WorkloadType.UNKNOWN:
                yield _fit_one(workload, policy, chosen)


def _fit_one(workload: WorkloadType, policy: Policy, jobs: Sequence[Measured]) -> FittedLine:
    """Fit one line."""
    gpus = np.array([job.gpus for job in jobs], dtype=np.int64)
    different = len(np.unique(gpus))
    if different < FEWEST:
        name = f"{workload.label} jobs, {policy.label}"
        raise InvalidProblemError(name, f"measured with {different} numbers of GPUs, a line needs at least {FEWEST}")
    penalty = np.array([job.service_s - job.requested_s for job in jobs])
    line = _least_squares(gpus, penalty)
    residual = penalty - line.at(gpus)
    spread = float(((penalty - penalty.mean()) ** 2).sum())
    return FittedLine(
        workload,
        policy,
        line,
        len(jobs),
        float(np.sqrt((residual**2).mean())),
        float(np.abs(residual).max()),
        None if spread == 0 else 1.0 - float((residual**2).sum()) / spread,
    )


def _least_squares(gpus: IntArray, penalty: FloatArray) -> Line:
    """Return the line with the smallest sum of squares."""
    centred = gpus - gpus.mean()
    per_gpu = float(centred @ penalty / (centred @ centred))
    return Line(float(penalty.mean() - per_gpu * gpus.mean()), per_gpu)
