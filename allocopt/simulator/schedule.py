"""A schedule: when every job of a workload started and ended, and where it ran."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Topology
from allocopt.notebook import html_table
from allocopt.traces.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """What a simulation gives; all arrays are in the workload's order, shape ``(n,)``, times in seconds.

    Parameters
    ----------
    workload
        The jobs.
    processors
        Size of the machine.
    release
        When each job joined the queue: its submit time, or later where it had to wait for a preceding job.
    start, end
        A job runs on ``[start, end)``, and holds its processors for as long.
    nodes
        Nodes of each job, where the platform has nodes; else None.
    topology
        How the nodes are connected; None where that is not known.
    held_from
        Where jobs were guests on processors that others held: from when on each job held its own, ``end`` if never.
    """

    workload: Workload
    processors: int
    release: FloatArray
    start: FloatArray
    end: FloatArray
    nodes: tuple[IntArray, ...] | None = None
    topology: Topology | None = None
    held_from: FloatArray | None = None

    @property
    def wait_s(self) -> FloatArray:
        """Seconds for which each job waited."""
        return np.asarray(self.start - self.release)

    @property
    def run_s(self) -> FloatArray:
        """Seconds for which each job ran."""
        return np.asarray(self.end - self.start)

    @property
    def response_s(self) -> FloatArray:
        """Seconds from joining the queue to the end of each job."""
        return np.asarray(self.end - self.release)

    @property
    def makespan_s(self) -> float:
        """Seconds from the first submission to the last end."""
        return float(self.end.max() - self.workload.submit.min())

    def _repr_html_(self) -> str:
        """Describe it in a notebook."""
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
