"""What a simulation on a multicore machine knows beside `State`: processors, nodes, cores, tasks and their jobs.

The records of `State` are here the *tasks*, in the order of their jobs. The first task of a job stands for it in the
queue; the others are started with it and never queued. Work is counted in billions of cycles, speed in billions of
cycles per second: the core's own times its speed factor.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import Any, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.cluster.multicore import Machine, Node, PowerConstants
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.kernels.arrays import FloatMatrix, Records, record_dtype, record_type
from allocopt.simulator.multicore.policies import JobSelection
from allocopt.simulator.rules import Backfill, QueueKeys, Rules
from allocopt.simulator.state import State, new_state
from allocopt.traces.tasks import TaskWorkload
from allocopt.traces.workload import Workload

IDLE = -1  # stands in `Multicore.core_task` for no task, and elsewhere for no core and no node


class TallyRecord(Protocol):
    """The numbers of the whole machine."""

    sharing: float  # what the number of other tasks is multiplied with in the floor of the speed factor
    running: int  # tasks that run
    finished: int  # jobs of which all tasks have ended
    n_dirty: int  # processors on which a task has started or ended since the speeds were set
    began: float  # time from which on energy is counted: the first submission
    last_queue: int  # length of the queue at the decision before
    sought_by: int  # the job selection that searched the first places of the queue, or ``IDLE``
    sought: int  # how many places it searched
    best: int  # the place that it found


class ProcessorRecord(Protocol):
    """A processor; rates in MB/s, power in watts, energy in joules."""

    node: int
    first_core: int
    cores: int
    idle_from: int  # no core before this one is idle
    speed: float  # billions of cycles per second of a core whose factor is 1
    bandwidth: float
    b: float
    c: float
    da: float
    db: float
    dc: float
    dd: float
    core_w: float
    processor_w: float
    idle_w: float
    stalled: float
    active: int  # tasks on its cores
    demand: float  # rate at which they would access memory, each alone
    power: float
    energy: float
    changed: float  # time up to which energy is counted
    dirty: int


class NodeRecord(Protocol):
    """A node."""

    free_cores: int
    memory_mb: float
    free_mb: float  # infinite where memory does not limit jobs
    taken_by: int  # the job whose tasks were put there last


class TaskRecord(Protocol):
    """A task, beside its record in `State`."""

    job: int
    core: int
    processor: int  # where it runs or ran; ``IDLE`` before
    intensity: float  # MB that it reads and writes per billion cycles
    factor: float  # its speed factor
    energy: float  # joules of its core, and its share of what the processor's cores share


class JobRecord(Protocol):
    """A job."""

    first_task: int
    tasks: int
    nodes: int
    per_node: int  # tasks on each of its nodes but the last
    memory_mb: float  # memory of a task
    fixed_node: int  # the node it is to run on, or ``IDLE``
    unfinished: int  # tasks that have not ended
    start: float
    end: float


class Multicore(NamedTuple):
    """A multicore machine with the tasks on it."""

    tally: Records[TallyRecord]
    processors: Records[ProcessorRecord]  # shape ``(P,)``
    nodes: Records[NodeRecord]  # shape ``(N,)``
    tasks: Records[TaskRecord]  # shape ``(T,)``, as the records of `State`
    jobs: Records[JobRecord]  # shape ``(n,)``
    core_task: IntArray  # task on each core, or ``IDLE``, shape ``(C,)``
    dirty: IntArray  # the processors that ``tally.n_dirty`` counts, shape ``(P,)``
    word: WordArray  # state of the random numbers, shape ``(1,)``
    # By `JobSelection` and first task: what orders the waiting jobs, the lowest first, shape ``(6, T)``.
    values: FloatMatrix


MULTICORE = record_type(Multicore)
"""Numba type of `Multicore`."""


class ExecutionKind(StrEnum):
    """How fast tasks run, and what power they take."""

    # Tasks on one processor share its memory channels, and what its cores share draws power once.
    CONTENTION = "contention"
    BASELINE = "baseline"  # cores know nothing of each other: no slowdown, and power of active cores only


@dataclass(frozen=True, slots=True)
class Execution:
    """How jobs run; a task may end when its estimate is over.

    In the floor of the speed factor the number of other tasks is multiplied with ``sharing``, which is positive (see
    `factor_of`). Raises `UsageError` if there is no such model, or the factor is not positive.
    """

    kind: ExecutionKind = ExecutionKind.CONTENTION
    sharing: float = 1.0
    kill_at_limit: bool = False

    def __post_init__(self) -> None:
        if self.kind not in tuple(ExecutionKind):
            raise UsageError(f"the execution model is {self.kind!r}, must be {' or '.join(ExecutionKind)}")
        object.__setattr__(self, "kind", ExecutionKind(self.kind))
        if not (isfinite(self.sharing) and self.sharing > 0):
            raise UsageError(f"sharing is {self.sharing:g}, must be a positive number")


def new_simulation(
    machine: Machine, jobs: TaskWorkload, execution: Execution, seed: int = 0, fixed_nodes: IntArray | None = None
) -> tuple[State, Multicore]:
    """Return the state before the first event; ``seed`` fixes what policies choose at random.

    Each job is to run on the node that ``fixed_nodes`` names, shape ``(n,)``, -1 for any. Raises `InvalidProblemError`
    if there are no jobs, or one can never start; it is named.
    """
    if not len(jobs):
        raise InvalidProblemError("workload", f"{jobs.name} holds no jobs")
    fixed = np.full(len(jobs), IDLE) if fixed_nodes is None else np.asarray(fixed_nodes, dtype=np.int64)
    check_jobs(machine, jobs, fixed)
    job_of = np.repeat(np.arange(len(jobs)), jobs.tasks)
    tally: Any = np.zeros(1, dtype=record_dtype(TallyRecord))
    tally["sharing"], tally["began"], tally["sought_by"] = execution.sharing, jobs.submit[0], IDLE
    kinds = list(machine.nodes())
    nodes: Any = np.zeros(len(kinds), dtype=record_dtype(NodeRecord))
    nodes["free_cores"], nodes["taken_by"] = [node.cores for node in kinds], IDLE
    nodes["memory_mb"] = nodes["free_mb"] = _memory(kinds)
    models = list(machine.processors())
    processors: Any = np.zeros(len(models), dtype=record_dtype(ProcessorRecord))
    processors["node"] = [number for number, node in enumerate(kinds) for _ in node.processors]
    processors["cores"] = [model.cores for model in models]
    processors["first_core"] = processors["idle_from"] = np.cumsum(processors["cores"]) - processors["cores"]
    processors["speed"] = [model.core_speed for model in models]
    # Where nothing is known of a bandwidth, processors differ by what is asked for only.
    processors["bandwidth"] = [model.bandwidth if isfinite(model.bandwidth) else 0.0 for model in models]
    for record, model in zip(processors, models, strict=True):
        power = model.power or PowerConstants(0.0, 0.0)
        record["core_w"], record["stalled"], record["c"] = power.core_w, 1.0, inf
        if execution.kind is ExecutionKind.BASELINE:
            continue
        for name in ("processor_w", "idle_w", "stalled"):
            record[name] = getattr(power, name)
        if model.contention is not None:
            for name in ("b", "c", "da", "db", "dc", "dd"):
                record[name] = getattr(model.contention, name)
    processors["power"] = processors["idle_w"]
    processors["changed"] = float(jobs.submit[0])
    tasks: Any = np.zeros(len(job_of), dtype=record_dtype(TaskRecord))
    tasks["job"], tasks["intensity"] = job_of, (jobs.volume_mb / jobs.work)[job_of]
    tasks["core"] = tasks["processor"] = IDLE
    records: Any = np.zeros(len(jobs), dtype=record_dtype(JobRecord))
    for field in ("tasks", "nodes", "per_node", "memory_mb"):
        records[field] = getattr(jobs, field)
    records["unfinished"], records["fixed_node"] = jobs.tasks, fixed
    records["first_task"] = np.cumsum(jobs.tasks) - jobs.tasks
    records["start"] = records["end"] = np.nan
    values = np.zeros((len(JobSelection), len(job_of)))
    for selection, column in (
        (JobSelection.SHORTEST, jobs.estimate),
        (JobSelection.SMALLEST, jobs.tasks),
        (JobSelection.LOW_MEM, jobs.memory_mb),
        (JobSelection.LOW_MEM_BW, jobs.volume_mb / jobs.estimate),
    ):
        values[selection] = column[job_of]
    # Only the first task of each job comes by itself.
    ones, numbers = np.ones(len(job_of), dtype=np.int64), np.arange(len(job_of))
    each = Workload(jobs.name, numbers, jobs.submit[job_of], jobs.work[job_of], ones, jobs.estimate[job_of])
    arrival = QueueKeys.by_arrival(len(job_of))
    rules = Rules(kill_at_limit=execution.kill_at_limit, dependencies=False)
    state = new_state(each, ones[:, None], np.array([machine.cores]), rules, Backfill.NONE, arrival)
    first = np.searchsorted(job_of, job_of)
    # Nothing releases the others: they start with the first task.
    state.jobs["preceding"][first < numbers] = first[first < numbers]
    multicore = Multicore(
        *(tally, processors, nodes, tasks, records),
        np.full(machine.cores, IDLE),
        np.zeros(len(processors), dtype=np.int64),
        np.array([seed % 2**64], dtype=np.uint64),
        values,
    )
    return state, multicore


def check_jobs(machine: Machine, jobs: TaskWorkload, fixed_nodes: IntArray) -> None:
    """Raise `InvalidProblemError` where a job asks for more than the machine has."""
    nodes = list(machine.nodes())
    cores = np.array([node.cores for node in nodes])
    memory = _memory(nodes)
    asked_for = np.stack([jobs.nodes, jobs.per_node, jobs.memory_mb, fixed_nodes], axis=1)
    for job in np.unique(asked_for, axis=0, return_index=True)[1].tolist():
        wanted, per_node = int(jobs.nodes[job]), int(jobs.per_node[job])
        hosts = (cores >= per_node) & (memory >= per_node * jobs.memory_mb[job])
        if fixed_nodes[job] != IDLE:
            hosts &= np.arange(len(nodes)) == fixed_nodes[job]
        if int(hosts.sum()) < wanted:
            asked = f"asks for {_amount(wanted, 'node')} with {_amount(per_node, 'core')}"
            asked += f" and {per_node * jobs.memory_mb[job]:g} MB each, the machine has {int(hosts.sum())} such nodes"
            most = "" if memory.max() == inf else f", {memory.max():g} MB the most memory"
            largest = f"; its largest node has {_amount(int(cores.max()), 'core')}{most}"
            raise InvalidProblemError(f"job {jobs.names[job]!r}", asked + largest)


def _amount(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _memory(nodes: list[Node]) -> FloatArray:
    return np.array([inf if node.memory_mb is None else node.memory_mb for node in nodes])
