"""Simulations on multicore machines, by decisions, by one policy or with given starts, and their schedules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.multicore import Machine
from allocopt.errors import InvalidProblemError
from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import bad_file, shown
from allocopt.interruption import run_in_slices
from allocopt.simulator.multicore.policies import EVERY, Action, NodeSelection
from allocopt.simulator.multicore.run import count_energy, decide, run_policy, to_decision
from allocopt.simulator.multicore.state import Execution, new_simulation
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import SchedulerError
from allocopt.traces.tasks import TaskWorkload


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MulticoreSchedule(Schedule):
    """A schedule of tasks with its energy, in joules; the run times of its workload are the simulated ones.

    The processors of the schedule are the cores of the machine. All tasks of a job start together; the job ends with
    the last of them.

    Parameters
    ----------
    cores
        Core of each task, in the order of the jobs, shape ``(tasks,)``.
    job_energy_j
        Energy of each job: that of its cores, plus its share of the remaining energy of processors, shape ``(n,)``.
    processor_energy_j
        Energy of each processor from the first submission to the last end, including idle times, shape ``(P,)``.
    """

    machine: Machine
    jobs: TaskWorkload
    nodes: tuple[IntArray, ...]
    cores: IntArray
    job_energy_j: FloatArray
    processor_energy_j: FloatArray

    @property
    def flow_time_s(self) -> float:
        """Sum of the times from submission to end; Table I of IRMaSim calls this the makespan."""
        return float(self.response_s.sum())

    @property
    def energy_j(self) -> float:
        """Energy of the whole machine."""
        return float(self.processor_energy_j.sum())

    @property
    def node_energy_j(self) -> FloatArray:
        """Energy of each node, shape ``(N,)``."""
        return _sums(self.processor_energy_j, [len(node.processors) for node in self.machine.nodes()])

    @property
    def cluster_energy_j(self) -> FloatArray:
        """Energy of each cluster, shape ``(clusters,)``."""
        return _sums(self.node_energy_j, [len(cluster.nodes) for cluster in self.machine.clusters])

    @property
    def energy_delay_js(self) -> float:
        """Energy of the whole machine times the makespan."""
        return self.energy_j * self.makespan_s


def _sums(values: FloatArray, counts: Sequence[int] | IntArray) -> FloatArray:
    return np.add.reduceat(values, np.cumsum(counts) - np.asarray(counts))


class MulticoreSimulation:
    """A simulation that advances from decision to decision; without an execution, jobs run under contention.

    See `new_simulation` for the arguments.
    """

    def __init__(
        self,
        machine: Machine,
        jobs: TaskWorkload,
        execution: Execution | None = None,
        seed: int = 0,
        fixed_nodes: IntArray | None = None,
    ) -> None:
        self.machine, self.jobs = machine, jobs
        self.state, self.multicore = new_simulation(machine, jobs, execution or Execution(), seed, fixed_nodes)
        # Copy only arrays: the scores of the state are empty, because selections order the tasks.
        self._arrays = [array for array in (*self.state, *self.multicore) if isinstance(array, np.ndarray)]
        self._fresh = [array.copy() for array in self._arrays]

    def reset(self, seed: int = 0) -> None:
        """Reset the simulation to the state before the first event."""
        for kept, array in zip(self._fresh, self._arrays, strict=True):
            array[...] = kept
        self.multicore.word[0] = seed % 2**64

    def to_decision(self) -> int:
        """Advance until a job waits and a core is idle; return ``DECISION``, ``OVER`` or ``STALLED``."""
        return int(to_decision(self.state, self.multicore))

    def decide(self, action: Action) -> int:
        """Start waiting jobs by a policy until the next one does not fit; return how many have started."""
        return int(decide(self.state, self.multicore, *action.codes))

    def run(self, jobs: int, nodes: int) -> None:
        """Run to the end with one policy, given by its codes; see `Action.codes`."""
        run_in_slices(partial(run_policy, self.state, self.multicore, jobs, nodes), 2**12)

    def schedule(self) -> MulticoreSchedule:
        """Return the schedule; raise `SchedulerError` if jobs have not ended."""
        unfinished = np.flatnonzero(np.isnan(self.multicore.jobs["end"]))
        if unfinished.size:
            first = self.jobs.names[int(unfinished[0])]
            left = "1 job has" if unfinished.size == 1 else f"{unfinished.size} jobs have"
            raise SchedulerError(f"{left} not ended, the first is job {first!r}")
        for processor in range(self.multicore.processors.size):
            count_energy(self.multicore, processor, float(self.multicore.jobs["end"].max()))
        start, end = self.multicore.jobs["start"].copy(), self.multicore.jobs["end"].copy()
        cores = self.multicore.tasks["core"].copy()
        # Derive the nodes of each job, in increasing order, from the cores of its tasks.
        counts = [node.cores for node in self.machine.nodes()]
        node_of, ends = np.repeat(np.arange(len(counts)), counts), np.cumsum(self.jobs.tasks)[:-1]
        return MulticoreSchedule(
            self.jobs.workload(start, end),
            self.machine.cores,
            self.jobs.submit,
            start,
            end,
            nodes=tuple(np.unique(node_of[tasks]) for tasks in np.split(cores, ends)),
            machine=self.machine,
            jobs=self.jobs,
            cores=cores,
            job_energy_j=_sums(self.multicore.tasks["energy"], self.jobs.tasks),
            processor_energy_j=self.multicore.processors["energy"].copy(),
        )


COLUMNS, DURATION = ("job_id", "node", "start_s"), "duration_s"


class PlacedJobs(NamedTuple):
    """Given starts and nodes of jobs, by name."""

    node: dict[str, str]
    start_s: dict[str, float]
    duration_s: dict[str, float]  # measured run times in seconds; empty if not measured

    @classmethod
    def read(cls, path: Path | str, names: Sequence[str]) -> "PlacedJobs":
        """Read nodes and starts of jobs; ``job17`` may be written as ``17``.

        The CSV file has the columns ``job_id``, ``node``, ``start_s`` and, if known, ``duration_s``; ``.gz`` is
        decompressed. Raises `BadFileError` if the file cannot be read, or a row is wrong; it names line and column.
        """
        path = Path(path)
        known = {name.removeprefix("job"): name for name in names} | {name: name for name in names}
        jobs = cls({}, {}, {})
        for place, row in csv_rows(path, COLUMNS, "jobs"):
            name = known.get(row["job_id"])
            if name is None or name in jobs.node:
                fault = "the workload has no such job" if name is None else "which is given twice"
                raise bad_file(path, place, f"job_id is {shown(row['job_id'])}, {fault}")
            jobs.node[name] = row["node"]
            jobs.start_s[name] = number_at_least_0(path, place, row, "start_s", "a time in seconds")
            if DURATION in row:
                jobs.duration_s[name] = number_at_least_0(path, place, row, DURATION, "a time in seconds")
                if not jobs.duration_s[name]:
                    raise bad_file(path, place, f"{DURATION} is {shown(row[DURATION])}, must be positive")
        return jobs

    def replay(self, machine: Machine, jobs: TaskWorkload, execution: Execution | None = None) -> MulticoreSchedule:
        """Simulate the jobs with their given starts and nodes, on the first idle cores.

        Each job has one node. A job starts later than given if too few cores of its node are idle then, because other
        jobs take longer in the simulation. In the schedule, the given start is the submit time. Raises
        `InvalidProblemError`, which names the job, if it has no given start, or its node is unknown or too small.
        """
        numbers = {node.name: number for number, node in enumerate(machine.nodes())}
        for name in jobs.names:
            if name not in self.node:
                raise InvalidProblemError(f"job {name!r}", "has no given start")
            if self.node[name] not in numbers:
                raise InvalidProblemError(
                    f"job {name!r}", f"is placed on node {self.node[name]!r}, which does not exist"
                )
        started = replace(jobs, submit=np.array([self.start_s[name] for name in jobs.names]))
        fixed = np.array([numbers[self.node[name]] for name in started.names])
        simulation = MulticoreSimulation(machine, started, execution, fixed_nodes=fixed)
        simulation.run(EVERY, NodeSelection.HIGH_CORES)
        return simulation.schedule()
