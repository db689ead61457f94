"""What a simulation on a multicore machine knows beside `State`: processors, nodes, cores, tasks and their jobs.

The records of `State` are here the *tasks*, in the order of their jobs. The first task of a job stands for it in the
queue; the others are started with it and never queued. Work is counted in billions of cycles, speed in billions of
cycles per second: the core's own times its speed factor.
"""

from typing import NamedTuple, Protocol

from numba import float64, int64, uint64

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.kernels.arrays import tuple_type
from allocopt.simulator.state import Records, record_dtype, records_type

IDLE = -1
"""Stands in `Multicore.core_task` for no task, and elsewhere for no core and no node."""


class TallyRecord(Protocol):
    """The numbers of the whole machine."""

    sharing: float
    """What the number of other tasks is multiplied with in the floor of the speed factor."""
    running: int
    """Tasks that run."""
    finished: int
    """Jobs of which all tasks have ended."""
    n_dirty: int
    """Processors on which a task has started or ended since the speeds were set."""
    began: float
    """Time from which on energy is counted: the first submission."""
    last_queue: int
    """Length of the queue at the decision before."""
    sought_by: int
    sought: int
    best: int
    """The first ``sought`` places of the queue were searched by a job selection (or ``IDLE``), which found ``best``."""


class ProcessorRecord(Protocol):
    """A processor; rates in MB/s, power in watts, energy in joules."""

    node: int
    first_core: int
    cores: int
    idle_from: int
    """No core before this one is idle."""
    speed: float
    """Billions of cycles per second of a core whose factor is 1."""
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
    active: int
    """Tasks on its cores."""
    demand: float
    """Rate at which they would access memory, each alone."""
    power: float
    energy: float
    changed: float
    """Time up to which energy is counted."""
    dirty: int


class NodeRecord(Protocol):
    """A node."""

    first_processor: int
    processors: int
    cores: int
    free_cores: int
    memory_mb: float
    free_mb: float
    """Infinite where memory does not limit jobs."""
    taken_by: int
    """The job whose tasks were put there last."""


class TaskRecord(Protocol):
    """A task, beside its record in `State`."""

    job: int
    core: int
    processor: int
    """Where it runs or ran; ``IDLE`` before."""
    intensity: float
    """MB that it reads and writes per billion cycles."""
    factor: float
    """Its speed factor."""
    energy: float
    """Joules of its core, and its share of what the processor's cores share."""


class JobRecord(Protocol):
    """A job."""

    first_task: int
    tasks: int
    nodes: int
    per_node: int
    """Tasks on each of its nodes but the last."""
    estimate: float
    memory_mb: float
    """Memory of a task."""
    rate: float
    """MB/s that its user asked for: the volume of a task over the estimate."""
    fixed_node: int
    """The node it is to run on, or ``IDLE``."""
    unfinished: int
    """Tasks that have not ended."""
    start: float
    end: float


class Multicore(NamedTuple):
    """A multicore machine with the tasks on it.

    Parameters
    ----------
    tally
        The numbers of the whole machine, shape ``(1,)``.
    processors
        Shape ``(P,)``.
    nodes
        Shape ``(N,)``.
    tasks
        Shape ``(T,)``, as the records of `State`.
    jobs
        Shape ``(n,)``.
    core_task
        Task on each core, or ``IDLE``, shape ``(C,)``.
    dirty
        The processors that ``tally.n_dirty`` counts, shape ``(P,)``.
    word
        State of the random numbers, shape ``(1,)``.
    values
        By `JobSelection` and first task: what orders the waiting jobs, the lowest first, shape ``(6, T)``.
    """

    tally: Records[TallyRecord]
    processors: Records[ProcessorRecord]
    nodes: Records[NodeRecord]
    tasks: Records[TaskRecord]
    jobs: Records[JobRecord]
    core_task: IntArray
    dirty: IntArray
    word: WordArray
    values: FloatArray


TALLY_DTYPE, PROCESSOR_DTYPE, NODE_DTYPE, TASK_DTYPE, JOB_DTYPE = map(
    record_dtype, (TallyRecord, ProcessorRecord, NodeRecord, TaskRecord, JobRecord)
)

_LIST = int64[::1]

MULTICORE = tuple_type(
    (
        *map(records_type, (TALLY_DTYPE, PROCESSOR_DTYPE, NODE_DTYPE, TASK_DTYPE, JOB_DTYPE)),
        *(_LIST, _LIST),
        uint64[::1],
        float64[:, ::1],
    ),
    Multicore,
)
"""Numba type of `Multicore`."""
