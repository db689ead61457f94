"""Jobs of parallel tasks, with their computation and memory traffic: IRMaSim's files, and batches of NAS benchmarks.

IRMaSim was validated with such batches of serial runs (section VI and Table IV).
"""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.files.faults import bad_file, problem_faults_named, shown
from allocopt.files.models import FileModel, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.traces.records import trace_name
from allocopt.traces.workload import Workload

_WHOLE = ("nodes", "tasks")
_POSITIVE = ("instructions", "ipc", "estimate")
_OTHERS = ("submit", "memory_mb", "volume_mb")
_COLUMNS = (*_WHOLE, *_POSITIVE, *_OTHERS)
# Range of positive values; values that may be 0 have only the upper limit. Keeps times and energies finite.
_LEAST, _MOST = 1e-15, 1e21
_LAST_NUMBER = re.compile(r"[0-9]{1,18}$")


@dataclass(frozen=True, slots=True, eq=False)
class TaskWorkload:
    """Jobs whose tasks need one core each; sorted by submit time, jobs with equal times in the given order.

    Arrays have shape ``(n,)``. Raises `InvalidProblemError`, which names the job, if a value is out of its range.
    """

    name: str
    names: tuple[str, ...]  # distinct names of the jobs
    submit: FloatArray  # submit times in seconds, not negative
    # Number of different nodes for the tasks of a job, at least 1, and number of tasks, at least one per node. All
    # nodes but the last get equally many tasks.
    nodes: IntArray
    tasks: IntArray
    # Instructions that each task executes, and its instructions per cycle if it runs alone, both positive.
    instructions: FloatArray
    ipc: FloatArray
    # Memory that each task occupies, and data that it reads from and writes to memory, in MB.
    memory_mb: FloatArray
    volume_mb: FloatArray
    estimate: FloatArray  # the user's estimate of the run time in seconds, positive
    applications: tuple[str, ...] = field(default=())  # application of each job, for reports; empty if unknown

    def __post_init__(self) -> None:
        n = len(self.names)
        for column in _COLUMNS:
            if np.shape(getattr(self, column)) != (n,):
                fault = f"{column} has shape {np.shape(getattr(self, column))}, must be ({n},)"
                raise InvalidProblemError("workload", fault)
        if len(set(self.names)) < n:
            twice = next(name for name, count in Counter(self.names).items() if count > 1)
            raise InvalidProblemError("workload", f"names a job twice: {twice!r}")
        if self.applications and len(self.applications) != n:
            raise InvalidProblemError("workload", f"has {len(self.applications)} applications for {n} jobs")
        order = np.argsort(self.submit, kind="stable")
        for column in _COLUMNS:
            kind = np.int64 if column in _WHOLE else np.float64
            values = np.asarray(getattr(self, column))[order].astype(kind)
            values.setflags(write=False)
            object.__setattr__(self, column, values)
        for column in ("names", "applications") if self.applications else ("names",):
            object.__setattr__(self, column, tuple(getattr(self, column)[row] for row in order.tolist()))
        positive, not_negative = f"positive number, from {_LEAST:g} to", "number, not negative, at most"
        for columns, least, words in ((_POSITIVE, _LEAST, positive), (_OTHERS, 0, not_negative)):
            for column in columns:
                values = getattr(self, column)
                self._check(column, (values >= least) & (values <= _MOST), f"a {words} {_MOST:g}")
        # Each value may be in range although the quotient is not.
        work = self.work
        right = f"such that instructions / ipc / 1e9 is from {_LEAST:g} to {_MOST:g}"
        self._check("instructions", (work >= _LEAST) & (work <= _MOST), right)
        self._check("nodes", self.nodes >= 1, "at least 1")
        self._check("tasks", self.tasks >= self.nodes, "at least one for each of its nodes")
        filled = (self.nodes - 1) * self.per_node < self.tasks
        self._check("tasks", filled, "enough that its last node gets a task if the other nodes get equally many")

    def _check(self, column: str, holds: BoolArray, right: str) -> None:
        if not holds.all():
            job = int(np.argmin(holds))
            fault = f"{column} is {getattr(self, column)[job]:g}, must be {right}"
            raise InvalidProblemError(f"job {self.names[job]!r}", fault)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def per_node(self) -> IntArray:
        """Tasks on each node of a job except its last, shape ``(n,)``."""
        return np.asarray(-(-self.tasks // self.nodes), dtype=np.int64)

    @property
    def work(self) -> FloatArray:
        """Billions of cycles that each task takes without other tasks, shape ``(n,)``."""
        with np.errstate(over="ignore"):
            return np.asarray(self.instructions / self.ipc / 1e9, dtype=np.float64)

    def first(self, jobs: int) -> "TaskWorkload":
        """Return the workload of the jobs submitted first."""
        columns = {column: getattr(self, column)[:jobs] for column in _COLUMNS}
        return replace(self, names=self.names[:jobs], applications=self.applications[:jobs], **columns)

    def numbers(self) -> IntArray:
        """Return a number for each job: the one at the end of its name if these increase, else its position from 1."""
        found = [_LAST_NUMBER.search(name) for name in self.names]
        if all(found):
            numbers = np.array([int(one.group()) for one in found if one is not None], dtype=np.int64)
            if (np.diff(numbers) > 0).all():
                return numbers
        return np.arange(1, len(self) + 1)

    def workload_at(self, core_speed: float) -> Workload:
        """Return the jobs with run times of undisturbed tasks on cores of ``core_speed`` billion cycles per second."""
        return Workload(self.name, self.numbers(), self.submit, self.work / core_speed, self.tasks, self.estimate)

    def workload(self, start: FloatArray, end: FloatArray) -> Workload:
        """Return the jobs with the run times of a simulation: start and end in seconds, shape ``(n,)``."""
        return Workload(self.name, self.numbers(), self.submit, end - start, self.tasks, self.estimate)


_Count = Annotated[int, Field(ge=1, le=1_000_000)]
_Positive = Annotated[float, Field(gt=0)]
_NotNegative = Annotated[float, Field(ge=0)]


# Unknown keys are ignored, as in IRMaSim.
class _Profile(FileModel, extra="ignore"):
    req_ops: _Positive
    ipc: _Positive
    req_time: _Positive
    mem: _NotNegative
    mem_vol: _NotNegative


class _Job(FileModel, extra="ignore"):
    # The fields of the profile are in the job, or in a profile that it names.
    id: str | int | None = None
    subtime: _NotNegative
    res: _Count | None = None
    nodes: _Count | None = None
    ntasks: _Count | None = None
    ntasks_per_node: _Count | None = None
    profile: str | None = None

    def shape(self, where: str) -> tuple[int, int]:
        """Return the numbers of nodes and tasks; one may be derived from the other."""
        several = (self.nodes, self.ntasks, self.ntasks_per_node)
        if self.res is not None:
            if several != (None, None, None):
                fault = "has res and also nodes, ntasks or ntasks_per_node; give either res or the others"
                raise bad_file(where, fault)
            return 1, self.res
        per_node = self.ntasks_per_node or 1
        tasks = (self.nodes or 0) * per_node if self.ntasks is None else self.ntasks
        if not tasks:
            raise bad_file(where, "has no size; give res, ntasks or nodes")
        nodes = ceil(tasks / per_node)
        if None not in several and self.nodes != nodes:
            fault = f"has {tasks} tasks, {per_node} on each node, and {self.nodes} nodes, must be {nodes}"
            raise bad_file(where, fault)
        return self.nodes or nodes, tasks


class _File(FileModel, extra="ignore"):
    jobs: Annotated[list[dict[str, object]], Field(min_length=1)]
    profiles: Annotated[dict[str, object], Field(default_factory=dict)]


def read_irmasim(path: Path | str) -> TaskWorkload:
    """Read a workload of IRMaSim, plain or compressed (``.gz``).

    A job has ``res`` tasks on one node, or two of ``nodes``, ``ntasks`` and ``ntasks_per_node`` (1 if not given).
    ``req_ops``, ``ipc``, ``mem`` and ``mem_vol`` (MB) are per task, ``req_time`` is the estimate; they are fields of
    the job or of its profile. Raises `BadFileError` if anything is wrong; it names the job and the field.
    """
    path = Path(path)
    model = validated(_File, parse_json(read_text(path), path), path)
    jobs, profiles, shapes = [], [], []
    for number, given in enumerate(model.jobs):
        where = f"{path}: jobs[{number}]"
        job = validated(_Job, given, where)
        about: object = given
        place = where
        if job.profile is not None:
            if job.profile not in model.profiles:
                raise bad_file(f"{where}.profile", f"is {shown(job.profile)}, there is no such profile")
            about, place = model.profiles[job.profile], f"{path}: profile {shown(job.profile)}"
        profiles.append(validated(_Profile, about, place))
        jobs.append(job)
        shapes.append(job.shape(where))
    names = tuple(f"job{number}" if job.id is None else str(job.id) for number, job in enumerate(jobs))
    submit = np.array([job.subtime for job in jobs], dtype=np.float64)
    asked = ("req_ops", "ipc", "mem", "mem_vol", "req_time")
    values = np.array([[getattr(one, name) for name in asked] for one in profiles], dtype=np.float64)
    (nodes, tasks), (operations, ipc, memory, volume, estimate) = np.array(shapes).T, values.T
    needs, applications = (operations, ipc, memory, volume, estimate), tuple(job.profile or "" for job in jobs)
    with problem_faults_named(path):
        return TaskWorkload(trace_name(path), names, submit, nodes, tasks, *needs, applications)


class _Benchmark(NamedTuple):
    name: str  # with its class
    instructions: float
    ipc: float  # instructions per cycle
    volume_mb: float  # read from and written to memory


TABLE_FOUR = (
    _Benchmark("bt.C", 633.50e10, 3.06, 5.17e6),
    _Benchmark("cg.C", 60.31e10, 1.10, 7.30e6),
    _Benchmark("ep.C", 80.94e10, 1.16, 0.21e6),
    _Benchmark("is.C", 6.43e10, 0.95, 0.07e6),
    _Benchmark("lu.C", 370.25e10, 2.20, 8.70e6),
    _Benchmark("sp.C", 356.10e10, 2.74, 9.60e6),
    _Benchmark("ua.C", 312.57e10, 2.30, 4.32e6),
)
"""The benchmarks of Table IV."""

# Clock at which an undisturbed job takes as long as its user estimates.
_REFERENCE_GHZ = 3.4
# The paper says that the jobs of a batch are submitted within minutes.
_SPAN_S = 120.0


def npb_batch(jobs: int, rng: np.random.Generator, span_s: float = _SPAN_S) -> TaskWorkload:
    """Draw serial jobs, each a benchmark of Table IV, submitted uniformly within a span in seconds."""
    if jobs < 1 or not span_s >= 0:
        raise UsageError(f"the batch has {jobs} jobs in {span_s:g} s, must have at least 1 job in at least 0 s")
    drawn = rng.integers(len(TABLE_FOUR), size=jobs)
    chosen = [TABLE_FOUR[number] for number in drawn.tolist()]
    instructions, ipc = (np.array([getattr(one, field) for one in chosen]) for field in ("instructions", "ipc"))
    names = tuple(f"job{number}" for number in range(1, jobs + 1))
    submit, ones = np.sort(rng.uniform(0.0, span_s, size=jobs)), np.ones(jobs, dtype=np.int64)
    volume_mb, estimate = np.array([one.volume_mb for one in chosen]), instructions / ipc / (_REFERENCE_GHZ * 1e9)
    needs = (instructions, ipc, np.zeros(jobs), volume_mb, estimate)
    return TaskWorkload(f"npb-{jobs}", names, submit, ones, ones, *needs, tuple(one.name for one in chosen))
