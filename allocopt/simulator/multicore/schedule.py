"""What a simulation on a multicore machine gives: when and where jobs ran, and the energy."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.multicore import Machine
from allocopt.simulator.schedule import Schedule
from allocopt.traces.tasks import TaskWorkload


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MulticoreSchedule(Schedule):
    """A schedule of tasks with its energy, in joules; the run times of its workload are those that came out.

    Parameters
    ----------
    machine
        The machine; its cores are the processors of the schedule.
    jobs
        The jobs, ``n`` of them; one starts when all its tasks do, and ends with the last of them.
    cores
        Core of each task, in the order of the jobs, shape ``(tasks,)``.
    job_energy_j
        Energy of each job: of its cores, and its share of what processors draw beside them, shape ``(n,)``.
    processor_energy_j
        Energy of each processor from the first submission to the last end, idle times counted, shape ``(P,)``.
    """

    machine: Machine
    jobs: TaskWorkload
    nodes: tuple[IntArray, ...]
    cores: IntArray
    job_energy_j: FloatArray
    processor_energy_j: FloatArray

    @property
    def flow_time_s(self) -> float:
        """Sum of the times between submission and end: what Table I of IRMaSim calls the makespan."""
        return float(self.response_s.sum())

    @property
    def energy_j(self) -> float:
        """Energy of the whole machine."""
        return float(self.processor_energy_j.sum())

    @property
    def node_energy_j(self) -> FloatArray:
        """Energy of each node, shape ``(N,)``."""
        counts = [len(node.processors) for node in self.machine.nodes()]
        return _sums(self.processor_energy_j, counts)

    @property
    def cluster_energy_j(self) -> FloatArray:
        """Energy of each cluster, shape ``(clusters,)``."""
        return _sums(self.node_energy_j, [len(cluster.nodes) for cluster in self.machine.clusters])

    @property
    def job_energy_delay_js(self) -> FloatArray:
        """Energy of each job times the seconds from its submission to its end, shape ``(n,)``."""
        return np.asarray(self.job_energy_j * self.response_s, dtype=np.float64)

    @property
    def node_energy_delay_js(self) -> FloatArray:
        """Energy of each node times the makespan, shape ``(N,)``."""
        return np.asarray(self.node_energy_j * self.makespan_s, dtype=np.float64)

    @property
    def cluster_energy_delay_js(self) -> FloatArray:
        """Energy of each cluster times the makespan, shape ``(clusters,)``."""
        return np.asarray(self.cluster_energy_j * self.makespan_s, dtype=np.float64)

    @property
    def energy_delay_js(self) -> float:
        """Energy of the whole machine times the makespan."""
        return self.energy_j * self.makespan_s


def nodes_of(machine: Machine, jobs: TaskWorkload, cores: IntArray) -> tuple[IntArray, ...]:
    """Return the nodes of each job, rising, from the core of each task."""
    nodes = list(machine.nodes())
    node_of = np.repeat(np.arange(len(nodes)), [node.cores for node in nodes])
    ends = np.cumsum(jobs.tasks)[:-1]
    return tuple(np.unique(node_of[tasks]) for tasks in np.split(cores, ends))


def _sums(values: FloatArray, counts: list[int]) -> FloatArray:
    """Return sums of values that stand in a row, so many for each sum."""
    firsts: Any = np.cumsum(counts) - counts
    return np.asarray(np.add.reduceat(values, firsts), dtype=np.float64)
