"""When jobs end that share cores, stage by stage."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.problems.coallocation.interference import Interference, Sharing, Tenant, slowdowns
from allocopt.traces.job_profile import ProfiledJob, Stage

LEAST_S = 1e-9
"""Seconds of work below which a stage is over."""


@dataclass
class _Running:
    number: int
    job: ProfiledJob
    quota: float
    left: list[tuple[Stage, float]]


def finish_times(
    jobs: Sequence[ProfiledJob],
    quotas: Sequence[float],
    cores: int,
    sharing: Sharing = Sharing.SHARES,
    interference: Interference | None = None,
) -> FloatArray:
    """Return when each job ends, in seconds from now.

    The quota of a job that has ended goes to those that go on, in proportion to theirs: whoever is left alone has all.
    """
    running = [
        _Running(number, job, quota, [(stage, stage.share * job.remaining_s) for stage in job.profile])
        for number, (job, quota) in enumerate(zip(jobs, quotas, strict=True))
    ]
    ends, now = np.zeros(len(jobs)), 0.0
    how = interference or Interference()
    while running:
        total = sum(one.quota for one in running)
        tenants = [Tenant(one.job.cores, one.left[0][0], one.quota / total) for one in running]
        slow = slowdowns(tenants, cores, sharing, how)
        step = min(one.left[0][1] * slow[place] for place, one in enumerate(running))
        now += step
        for place, one in enumerate(running):
            stage, left = one.left[0]
            one.left[0] = (stage, left - step / slow[place])
            if one.left[0][1] <= LEAST_S:
                one.left.pop(0)
                ends[one.number] = now
        running = [one for one in running if one.left]
    return ends
