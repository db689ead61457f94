"""The metrics of a schedule: over its jobs, by size of job, and over the machine's time."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import hop_costs
from allocopt.errors import UsageError
from allocopt.simulator.fragmentation import mean_fragmentation
from allocopt.simulator.job_statistics import JobStatistics, MeasuredJobs, SizeClass
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.times import job_times
from allocopt.simulator.usage import Window, max_queue_length, mean_queue_length, utilization

STARVATION_S = 86_400.0
HOP_COST = 1000.0


@dataclass(frozen=True, slots=True)
class Trim:
    """Jobs left out of the metrics because the machine was filling or draining.

    Parameters
    ----------
    first, last
        Shares of the jobs, those submitted first and last, each rounded down to whole jobs; 0.1 is a tenth.

    Raises
    ------
    UsageError
        If a share is negative or nothing would be left.
    """

    first: float = 0.0
    last: float = 0.0

    def __post_init__(self) -> None:
        if not (self.first >= 0 and self.last >= 0 and self.first + self.last < 1):
            fault = "must not be negative and be less than 1 together"
            raise UsageError(f"the shares of jobs trimmed are {self.first:g} and {self.last:g}, {fault}")

    def kept(self, jobs: int) -> slice:
        """Say which of some jobs, in the order of submission, are kept: at least one."""
        # A thousandth of a job makes up for shares that are no binary fractions.
        first, last = int(self.first * jobs + 1e-3), int(self.last * jobs + 1e-3)
        first = min(first, jobs - 1)
        return slice(first, max(jobs - last, first + 1))


NO_TRIM = Trim()


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The machine between the first submission and the last end of the jobs measured.

    Parameters
    ----------
    makespan_s
        Seconds from the first submission to the last end.
    utilization
        Share of the processor-seconds that jobs held.
    mean_queue_length, max_queue_length
        Jobs that waited, over time.
    fragmentation
        See `allocopt.simulator.fragmentation`: one mean per level of the tree, the leaf level first; None where nodes
        or topology are not known.
    """

    makespan_s: float
    utilization: float
    mean_queue_length: float
    max_queue_length: int
    fragmentation: tuple[float | None, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """What is measured of a schedule.

    Parameters
    ----------
    jobs
        Over all jobs that are not trimmed.
    by_size
        Over those of each class of size, 1, 2 to 4, 5 to 16, 17 to 64, ... processors; classes without jobs left out.
    machine
        Over time.
    starvation_s
        Wait in seconds beyond which a job counts as starved.
    starved
        Ids of the jobs that starved, in the order of submission.
    """

    jobs: JobStatistics
    by_size: tuple[SizeClass, ...]
    machine: MachineUse
    starvation_s: float
    starved: IntArray


def measure(
    schedule: Schedule, trim: Trim = NO_TRIM, starvation_s: float = STARVATION_S, hop_cost: float = HOP_COST
) -> Metrics:
    """Measure a schedule.

    What is measured of the machine counts all jobs, trimmed ones too, but only while those that are kept are there:
    from their first submission to their last end.

    Parameters
    ----------
    schedule
        What to measure, at least one job.
    trim
        Which jobs to leave out.
    starvation_s
        Wait in seconds beyond which a job counts as starved.
    hop_cost
        Cost of one hop.
    """
    kept = trim.kept(len(schedule.workload))
    times = job_times(schedule)
    starved = times.wait_s > starvation_s
    measured = MeasuredJobs(schedule.workload.processors, times, starved, job_hop_costs(schedule, hop_cost))
    return Metrics(
        measured.statistics(kept),
        measured.by_size(kept),
        machine_use(schedule, kept),
        starvation_s,
        schedule.workload.ids[kept][starved[kept]],
    )


def job_hop_costs(schedule: Schedule, hop_cost: float = HOP_COST) -> FloatArray | None:
    """Hop cost of every job, shape ``(n,)``, NaN for jobs of one node; None where nodes or topology are not known."""
    if schedule.nodes is None or schedule.topology is None:
        return None
    several = np.array([len(nodes) > 1 for nodes in schedule.nodes])
    return np.where(several, hop_costs(schedule.topology, hop_cost, schedule.nodes), np.nan)


def machine_use(schedule: Schedule, kept: slice) -> MachineUse:
    """Measure the machine between the first submission and the last end of some jobs."""
    window = Window(float(schedule.workload.submit[kept].min()), float(schedule.end[kept].max()))
    return MachineUse(
        window.length,
        utilization(schedule, window),
        mean_queue_length(schedule, window),
        max_queue_length(schedule, window),
        mean_fragmentation(schedule, window),
    )
