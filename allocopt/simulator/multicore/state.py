"""The state of a simulation on a multicore machine, in addition to `State`: processors, nodes, tasks and jobs.

The jobs of `State` are the *tasks* here, in the order of their jobs. The first task of a job represents the job in the
queue; the other tasks start with it and are never queued. Work is in billions of cycles. Speed is in billions of cycles
per second: the speed of the core times the speed factor of the task.
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

IDLE = -1  # means no task in `Multicore.core_task`, elsewhere no core or no node


class TallyRecord(Protocol):
    """Numbers of the whole machine."""

    sharing: float  # weight of other tasks in the floor of the speed factor
    running: int  # number of running tasks
    finished: int  # number of jobs whose tasks have all ended
    n_dirty: int  # number of processors on which a task has started or ended since speeds were set
    began: float  # time from which on energy is counted: the first submission
    last_queue: int  # length of the queue at the previous decision
    sought_by: int  # the job selection that searched the first positions of the queue, or ``IDLE``
    sought: int  # number of positions that it searched
    best: int  # the position that it found


class ProcessorRecord(Protocol):
    """A processor; rates in MB/s, power in watts, energy in joules."""

    node: int
    first_core: int
    cores: int
    idle_from: int  # all cores before this one are busy
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
    active: int  # number of tasks on its cores
    demand: float  # sum of the rates at which they would access memory if each ran alone
    power: float
    energy: float
    changed: float  # time up to which energy is counted
    dirty: int


class NodeRecord(Protocol):
    """A node."""

    free_cores: int
    memory_mb: float
    free_mb: float  # infinite if memory does not limit jobs
    taken_by: int  # the job whose tasks were placed there last


class TaskRecord(Protocol):
    """A task, in addition to its record in `State`."""

    job: int
    core: int
    processor: int  # on which it runs or ran; ``IDLE`` before
    intensity: float  # MB that it reads and writes per billion cycles
    factor: float  # its speed factor
    energy: float  # joules of its core, plus its share of the energy that cores of the processor share


class JobRecord(Protocol):
    """A job."""

    first_task: int
    tasks: int
    nodes: int
    per_node: int  # tasks on each of its nodes except the last
    memory_mb: float  # memory of each task
    fixed_node: int  # the node on which it must run, or ``IDLE`` for any
    unfinished: int  # number of tasks that have not ended
    start: float
    end: float


class Multicore(NamedTuple):
    """A multicore machine with the tasks on it."""

    tally: Records[TallyRecord]
    processors: Records[ProcessorRecord]  # shape ``(P,)``
    nodes: Records[NodeRecord]  # shape ``(N,)``
    tasks: Records[TaskRecord]  # shape ``(T,)``, like the jobs of `State`
    jobs: Records[JobRecord]  # shape ``(n,)``
    core_task: IntArray  # task on each core, or ``IDLE``, shape ``(C,)``
    dirty: IntArray  # the processors that ``tally.n_dirty`` counts, shape ``(P,)``
    word: WordArray  # state of the random numbers, shape ``(1,)``
    # By `JobSelection` and task, the value by which waiting jobs are ordered, lowest first; shape ``(6, T)``.
    values: FloatMatrix


MULTICORE = record_type(Multicore)
"""Numba type of `Multicore`."""


class ExecutionKind(StrEnum):
    """Models of the speed and the power of tasks."""

    # Tasks on one processor share its memory channels; power of shared parts is counted once.
    CONTENTION = "contention"
    BASELINE = "baseline"  # cores are independent: no slowdown, and only power of active cores


@dataclass(frozen=True, slots=True)
class Execution:
    """How jobs run; with ``kill_at_limit`` tasks end at their estimates at the latest.

    In the floor of the speed factor, the number of other tasks is multiplied by ``sharing`` (see `factor_of`). Raises
    `UsageError` if there is no such model, or ``sharing`` is not positive.
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
    """Return the state before the first event; ``seed`` is the seed of the random choices of policies.

    ``fixed_nodes`` has the node on which each job must run, shape ``(n,)``, -1 for any. Raises `InvalidProblemError` if
    there are no jobs, or a job can never start; the message names it.
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
    # With unknown bandwidths, processors differ only by the requested bandwidth.
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
    # Only the first task of each job is submitted.
    ones, numbers = np.ones(len(job_of), dtype=np.int64), np.arange(len(job_of))
    each = Workload(jobs.name, numbers, jobs.submit[job_of], jobs.work[job_of], ones, jobs.estimate[job_of])
    arrival = QueueKeys.by_arrival(len(job_of))
    rules = Rules(kill_at_limit=execution.kill_at_limit, dependencies=False)
    state = new_state(each, ones[:, None], np.array([machine.cores]), rules, Backfill.NONE, arrival)
    first = np.searchsorted(job_of, job_of)
    # The others wait for the first task, so that they never join the queue; they are started with it.
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
    """Raise `InvalidProblemError` if a job requests more than the machine has."""
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
            most = "" if memory.max() == inf else f", the most memory of a node is {memory.max():g} MB"
            largest = f"; its largest node has {_amount(int(cores.max()), 'core')}{most}"
            raise InvalidProblemError(f"job {jobs.names[job]!r}", asked + largest)


def _amount(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _memory(nodes: list[Node]) -> FloatArray:
    return np.array([inf if node.memory_mb is None else node.memory_mb for node in nodes])
