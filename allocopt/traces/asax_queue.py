"""The queue of the ASAX paper's evaluation: 15 jobs of four workflows, three times (section 4.4).

The paper counts 512 cores; its geometry, 8 to 64 for three workflows and 16 to 64 for the fourth, sums to 472.
"""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES
from allocopt.traces.job_profile import ProfiledJob
from allocopt.traces.workload import Workload

REPEATS = 3
JOBS = sum(len(application.sizes) for application in APPLICATIONS.values())
"""Jobs of a repeat: 15."""
WALLTIME_FACTOR = 1.5
"""Limit over the run time alone: the paper says that users ask for more than they need, not how much more."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of the queue.

    Parameters
    ----------
    application
        Its workflow.
    submit_s
        When it is submitted, in seconds.
    job
        What it asks for, and how long it runs alone.
    """

    application: str
    submit_s: float
    job: ProfiledJob


def asax_queue(
    rng: np.random.Generator,
    repeats: int = REPEATS,
    walltime_factor: float = WALLTIME_FACTOR,
    cluster: int = CLUSTER_SIZES[0],
    between_s: float = 0.0,
    spread: float = 0.0,
) -> tuple[QueuedJob, ...]:
    """Draw the queue.

    Parameters
    ----------
    rng
        Source of randomness: the order of the 15 jobs in each repeat.
    repeats
        How often they are submitted.
    walltime_factor
        Limit over the run time alone.
    cluster
        Cores of the cluster whose lines of Table 2 the jobs follow: 64, 128 or 256.
    between_s
        Mean seconds between submissions, exponential; 0 for all at once.
    spread
        How far a run time is from that of its application: a factor within 1 - spread .. 1 + spread.
    """
    queue: list[QueuedJob] = []
    now = 0.0
    for repeat in range(repeats):
        kinds = [(name, cores) for name, app in APPLICATIONS.items() for cores in app.sizes]
        for place in rng.permutation(len(kinds)).tolist():
            name, cores = kinds[place]
            job = APPLICATIONS[name].job(f"{name}-{cores}-{repeat + 1}", cores, walltime_factor, cluster)
            factor = float(rng.uniform(1 - spread, 1 + spread)) if spread else 1.0
            job = replace(job, remaining_s=job.remaining_s * factor)
            queue.append(QueuedJob(name, now, job))
            now += float(rng.exponential(between_s)) if between_s else 0.0
    return tuple(queue)


def queue_workload(queue: tuple[QueuedJob, ...], name: str = "asax-queue") -> Workload:
    """Return the queue as a workload for schedulers that give every job cores of its own.

    Its executables are the paper's workflows, numbered from 1 in the order of `APPLICATIONS`, others 0.
    """
    numbers = defaultdict(int, {application: number for number, application in enumerate(APPLICATIONS, 1)})
    return Workload(
        name,
        ids=np.arange(1, len(queue) + 1),
        submit=np.array([one.submit_s for one in queue]),
        run=np.array([one.job.remaining_s for one in queue]),
        estimate=np.array([one.job.walltime_s for one in queue]),
        processors=np.array([one.job.cores for one in queue]),
        executables=np.array([numbers[one.application] for one in queue]),
    )
