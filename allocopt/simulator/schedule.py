"""A schedule: when every job of a workload started and ended, where it ran, and its waits and slowdowns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.cluster import CORES, GPUS, THOUSANDTHS, Cluster
from allocopt.cluster.topology import Topology, hop_costs
from allocopt.notebook import html_table
from allocopt.tables import Column, Tabular
from allocopt.traces.workload import Workload

# Least run time in the bounded slowdown, so that tiny jobs do not dominate its mean.
SLOWDOWN_BOUND_S = 10.0
HOP_COST = 1000.0


@dataclass(frozen=True, slots=True, eq=False)
class JobTimes:
    """Measures of jobs in the schedule's order, each of shape ``(n,)``.

    See Feitelson, "Metrics for parallel job scheduling and their convergence", JSSPP 2001,
    doi:10.1007/3-540-45540-X_11.
    """

    # Start and end minus release, in seconds.
    wait_s: FloatArray
    response_s: FloatArray
    # Response over run time, at least 1; 1 for a job so short that its end equals its start.
    slowdown: FloatArray
    bounded_slowdown: FloatArray  # ``max(1, (wait + run) / max(run, 10 s))``

    @classmethod
    def of(cls, wait_s: FloatArray, run_s: FloatArray) -> "JobTimes":
        """Return the measures of jobs from their waits and the times from start to end."""
        response = wait_s + run_s
        slowdown = np.divide(response, run_s, out=np.ones(len(run_s)), where=run_s > 0)
        bounded: FloatArray = np.maximum(response / np.maximum(run_s, SLOWDOWN_BOUND_S), 1.0)
        return cls(wait_s, response, slowdown, bounded)


@dataclass(frozen=True, slots=True, eq=False)
class Schedule(Tabular):
    """Result of a simulation; all arrays are in the workload's order, shape ``(n,)``, times in seconds.

    Parameters
    ----------
    processors
        Size of the machine.
    release
        When each job joined the queue: its submit time, or later if it had to wait for a preceding job.
    start, end
        A job runs during ``[start, end)``, and holds its processors for that time.
    nodes, topology
        Nodes of each job, and their topology; None if the platform has no nodes, or their topology is not known.
    held_from
        If jobs were guests on processors of others: the time from which each job held its own, ``end`` if never.
    requeues, lost_s
        If jobs were requeued: how often each job was, and the total time of its runs that were stopped.
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
        """Seconds that each job waited."""
        return np.asarray(self.start - self.release)

    @property
    def run_s(self) -> FloatArray:
        """Seconds from the start to the end of each job."""
        # The difference has a rounding error, so use the recorded run time or the estimate if a job ran that long.
        recorded, killed = self.workload.run, np.minimum(self.workload.run, self.workload.estimate)
        difference = np.where(self.start + recorded == self.end, recorded, self.end - self.start)
        run: FloatArray = np.where(self.start + killed == self.end, killed, difference)
        return run

    @property
    def response_s(self) -> FloatArray:
        """Seconds from joining the queue to the end of each job."""
        return np.asarray(self.end - self.release)

    def columns(self) -> Mapping[str, Column]:
        """Return a row for each job, in the workload's order; times in seconds.

        ``job_id`` is the name of the job in the trace, or else its number. ``run`` is the time from the start to the
        end. ``user``, ``account`` and ``partition`` are None if the trace does not name them, ``node_numbers`` is
        None if the nodes are not known.
        """
        jobs, times = self.workload, self.job_times
        return {
            "job_id": [
                name or str(number) for name, number in zip(jobs.names.tolist(), jobs.ids.tolist(), strict=True)
            ],
            "submit": jobs.submit,
            "start": self.start,
            "end": self.end,
            "processors": jobs.processors,
            "run": self.run_s,
            "estimate": jobs.estimate,
            "user": [label or None for label in jobs.user_labels],
            "account": [account or None for account in jobs.accounts],
            "partition": [None if asked is None else asked.partition or None for asked in jobs.requests],
            "wait": times.wait_s,
            "bounded_slowdown": times.bounded_slowdown,
            "node_numbers": [None] * len(jobs) if self.nodes is None else [held.tolist() for held in self.nodes],
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks that the metrics do not include: how many jobs were requeued, and the work that they lost."""
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
        """Amount that each job held while it ran, shape ``(n,)``, and the machine's total, by resource."""
        return {"processors": (self.workload.processors, self.processors)}

    @property
    def job_times(self) -> JobTimes:
        """Measures of every job; the run time of a killed job ends when it was killed."""
        return JobTimes.of(self.wait_s, self.run_s)

    def hop_costs(self, hop_cost: float = HOP_COST) -> FloatArray | None:
        """Return the hop cost of every job, NaN for jobs of one node; None if nodes or topology are not known."""
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
        Amounts that each job held over all of its nodes, in units of `Cluster.capacity`, shape ``(n, resources)``.
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
        """Return a schedule with the given fields, in which the processors of jobs are the cores that they held.

        In ``workload``, the processors of jobs may be nodes or cores.
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

    def columns(self) -> Mapping[str, Column]:
        """Return a row for each job: the columns of `Schedule`, and the amount of each resource that it held."""
        return {**super(ClusterSchedule, self).columns(), **self.held}

    @property
    def held(self) -> Mapping[str, FloatArray]:
        """Amount that each job held over all of its nodes, shape ``(n,)``, by resource."""
        return dict(zip(self.cluster.resources, self.amounts.T / THOUSANDTHS, strict=True))

    @property
    def used(self) -> Mapping[str, tuple[FloatArray | IntArray, float]]:
        """Cores, and GPUs if there are any; see `Schedule.used`."""
        counted = (CORES, GPUS) if self.cluster.total(GPUS) else (CORES,)
        return {name: (self.held[name], self.cluster.total(name)) for name in counted}
