"""A schedule: when every job of a workload started and ended, where it ran, and what it experienced."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.cluster import CORES, GPUS, THOUSANDTHS, Cluster
from allocopt.cluster.topology import Topology, hop_costs
from allocopt.notebook import html_table
from allocopt.traces.workload import Workload

# Run time below which jobs count as that long in the bounded slowdown, so that tiny jobs do not rule its mean.
SLOWDOWN_BOUND_S = 10.0
HOP_COST = 1000.0


@dataclass(frozen=True, slots=True, eq=False)
class JobTimes:
    """Measures of jobs in the schedule's order, each of shape ``(n,)``.

    Feitelson, "Metrics for parallel job scheduling and their convergence", JSSPP 2001, doi:10.1007/3-540-45540-X_11.
    """

    # Start and end minus release, in seconds.
    wait_s: FloatArray
    response_s: FloatArray
    # Response over run time, at least 1; 1 for a job too short for its end to differ from its start.
    slowdown: FloatArray
    bounded_slowdown: FloatArray  # ``max(1, (wait + run) / max(run, 10 s))``

    @classmethod
    def of(cls, wait_s: FloatArray, run_s: FloatArray) -> "JobTimes":
        """Measure jobs of which the waits and the times from start to end are known."""
        response = wait_s + run_s
        slowdown = np.divide(response, run_s, out=np.ones(len(run_s)), where=run_s > 0)
        bounded: FloatArray = np.maximum(response / np.maximum(run_s, SLOWDOWN_BOUND_S), 1.0)
        return cls(wait_s, response, slowdown, bounded)


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Result of a simulation; all arrays are in the workload's order, shape ``(n,)``, times in seconds.

    Parameters
    ----------
    processors
        Size of the machine.
    release
        When each job joined the queue: its submit time, or later where it had to wait for a preceding job.
    start, end
        A job runs on ``[start, end)``, and holds its processors for as long.
    nodes, topology
        Nodes of each job, where the platform has nodes, and how these are connected, where that is known; else None.
    held_from
        Where jobs were guests on processors that others held: from when on each job held its own, ``end`` if never.
    requeues, lost_s
        Where jobs were requeued: how often each was, and how long it had run then in all.
    """

    workload: Workload
    processors: int
    release: FloatArray
    start: FloatArray
    end: FloatArray
    nodes: tuple[IntArray, ...] | None = None
    topology: Topology | None = None
    held_from: FloatArray | None = None
    requeues: IntArray | None = None
    lost_s: FloatArray | None = None

    @property
    def wait_s(self) -> FloatArray:
        """Seconds for which each job waited."""
        return np.asarray(self.start - self.release)

    @property
    def run_s(self) -> FloatArray:
        """Seconds from the start to the end of each job."""
        # Exact where a job ran as long as it was recorded or estimated to: the difference has a rounding error.
        recorded, killed = self.workload.run, np.minimum(self.workload.run, self.workload.estimate)
        difference = np.where(self.start + recorded == self.end, recorded, self.end - self.start)
        run: FloatArray = np.where(self.start + killed == self.end, killed, difference)
        return run

    @property
    def response_s(self) -> FloatArray:
        """Seconds from joining the queue to the end of each job."""
        return np.asarray(self.end - self.release)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the metrics do not tell: how many jobs were requeued, and the work that they lost."""
        if self.requeues is None or self.lost_s is None:
            return ()
        jobs, lost = int((self.requeues > 0).sum()), float(self.lost_s @ self.workload.processors) / 3600
        return (f"jobs stopped and queued again: {jobs:,}, {lost:,.1f} processor hours of their work lost",)

    @property
    def makespan_s(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.end.max() - self.workload.submit.min())

    @property
    def used(self) -> Mapping[str, tuple[FloatArray | IntArray, float]]:
        """What each job held while it ran, shape ``(n,)``, and what the machine has, by resource."""
        return {"processors": (self.workload.processors, self.processors)}

    @property
    def job_times(self) -> JobTimes:
        """Measures of every job; one that was killed has run until it was killed."""
        return JobTimes.of(self.wait_s, self.run_s)

    def hop_costs(self, hop_cost: float = HOP_COST) -> FloatArray | None:
        """Return the hop cost of every job, NaN for jobs of one node; None where nodes or topology are not known."""
        if self.nodes is None or self.topology is None:
            return None
        several = np.array([len(nodes) > 1 for nodes in self.nodes])
        return np.where(several, hop_costs(self.topology, hop_cost, self.nodes), np.nan)

    def _repr_html_(self) -> str:
        waits = self.wait_s
        has_jobs = len(waits) > 0
        facts = (
            ("jobs", len(waits)),
            ("processors", self.processors),
            ("mean wait s", float(waits.mean()) if has_jobs else None),
            ("longest wait s", float(waits.max()) if has_jobs else None),
            ("makespan s", self.makespan_s if has_jobs else None),
        )
        return html_table(f"Schedule of {self.workload.name}", facts)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClusterSchedule(Schedule):
    """A schedule of jobs that may share nodes; the cores of the cluster are its processors.

    Parameters
    ----------
    cluster
        The machine.
    tasks
        Tasks of each job on each of its nodes.
    amounts
        What each job held on all of its nodes together, as `Cluster.capacity` counts, shape ``(n, resources)``.
    """

    cluster: Cluster
    tasks: tuple[IntArray, ...]
    amounts: IntArray

    @classmethod
    def of(
        cls,
        workload: Workload,
        cluster: Cluster,
        *,
        release: FloatArray,
        start: FloatArray,
        end: FloatArray,
        nodes: tuple[IntArray, ...],
        tasks: tuple[IntArray, ...],
        amounts: IntArray,
    ) -> "ClusterSchedule":
        """Return the schedule of jobs that a trace counts in nodes or cores; their processors are the cores they held.

        The arguments are the fields.
        """
        cores = np.maximum(1, -(-amounts[:, cluster.resources.index(CORES)] // THOUSANDTHS))
        return cls(
            replace(workload, processors=cores),
            cluster.processors,
            release,
            start,
            end,
            nodes,
            cluster.topology.tree,
            cluster=cluster,
            tasks=tasks,
            amounts=amounts,
        )

    @property
    def used(self) -> Mapping[str, tuple[FloatArray | IntArray, float]]:
        """Cores, and GPUs where there are any."""
        columns = dict(zip(self.cluster.resources, self.amounts.T / THOUSANDTHS, strict=True))
        counted = (CORES, GPUS) if self.cluster.total(GPUS) else (CORES,)
        return {name: (columns[name], self.cluster.total(name)) for name in counted}
