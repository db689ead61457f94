"""Workloads of IRMaSim: jobs of tasks of its JSON files, and batches of NAS parallel benchmarks, run serially.

The simulator was validated with such batches (section VI and Table IV).
"""

from math import ceil
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, problem_faults_named, shown
from allocopt.files.models import FileModel, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.traces.records import trace_name
from allocopt.traces.tasks import TaskWorkload

_MOST_TASKS = 1_000_000

_Count = Annotated[int, Field(ge=1, le=_MOST_TASKS)]
_Positive = Annotated[float, Field(gt=0)]
_NotNegative = Annotated[float, Field(ge=0)]


# Keys that are not known are ignored, as IRMaSim does.
class _Profile(FileModel, extra="ignore"):
    req_ops: _Positive
    ipc: _Positive
    req_time: _Positive
    mem: _NotNegative
    mem_vol: _NotNegative


class _Job(FileModel, extra="ignore"):
    # Its profile stands beside it or in it.
    id: str | int | None = None
    subtime: _NotNegative
    res: _Count | None = None
    nodes: _Count | None = None
    ntasks: _Count | None = None
    ntasks_per_node: _Count | None = None
    profile: str | None = None

    def shape(self, where: str) -> tuple[int, int]:
        """Return nodes and tasks, of which one may follow from the other."""
        several = (self.nodes, self.ntasks, self.ntasks_per_node)
        if self.res is not None:
            if several != (None, None, None):
                fault = "has res and also nodes, ntasks or ntasks_per_node; must have one or the other"
                raise bad_file(where, fault)
            return 1, self.res
        per_node = self.ntasks_per_node or 1
        tasks = (self.nodes or 0) * per_node if self.ntasks is None else self.ntasks
        if not tasks:
            raise bad_file(where, "has none of res, ntasks and nodes")
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
    ``req_ops``, ``ipc``, ``mem`` and ``mem_vol`` (MB) are those of each task, ``req_time`` is the estimate; they stand
    in the job or in its profile. Raises `BadFileError` if anything is wrong; it names the job and the field.
    """
    path = Path(path)
    model = validated(_File, parse_json(read_text(path), path), path)
    jobs, profiles, shapes = [], [], []
    for number, given in enumerate(model.jobs):
        where = f"{path}: jobs[{number}]"
        job = validated(_Job, given, where)
        if job.profile is not None and job.profile not in model.profiles:
            raise bad_file(f"{where}.profile", f"is {shown(job.profile)}, there is no such profile")
        if job.profile is None:
            profiles.append(validated(_Profile, given, where))
        else:
            profiles.append(validated(_Profile, model.profiles[job.profile], f"{path}: profile {shown(job.profile)}"))
        jobs.append(job)
        shapes.append(job.shape(where))
    names = tuple(f"job{number}" if job.id is None else str(job.id) for number, job in enumerate(jobs))
    nodes, tasks = np.array(shapes).T

    def column(name: str) -> FloatArray:
        return np.array([getattr(profile, name) for profile in profiles], dtype=np.float64)

    with problem_faults_named(path):
        return TaskWorkload(
            trace_name(path),
            names,
            np.array([job.subtime for job in jobs], dtype=np.float64),
            nodes,
            tasks,
            column("req_ops"),
            column("ipc"),
            column("mem"),
            column("mem_vol"),
            column("req_time"),
            tuple(job.profile or "" for job in jobs),
        )


class _Benchmark(NamedTuple):
    """A benchmark and its class; ``volume_mb`` is what it reads from and writes to memory, in MB."""

    name: str
    instructions: float
    # Instructions per cycle.
    ipc: float
    volume_mb: float


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

# Clock at which a job takes alone what its user estimates.
_REFERENCE_GHZ = 3.4
# The paper says that the jobs of a batch are submitted within minutes.
_SPAN_S = 120.0


def npb_batch(jobs: int, rng: np.random.Generator, span_s: float = _SPAN_S) -> TaskWorkload:
    """Draw a batch of serial jobs, each a benchmark of Table IV, submitted uniformly within a span in seconds.

    Raises `UsageError` if there is not at least one job, or the span is negative.
    """
    if jobs < 1 or not span_s >= 0:
        raise UsageError(f"a batch has at least 1 job, and a span that is not negative, not {jobs} in {span_s:g} s")
    drawn = rng.integers(len(TABLE_FOUR), size=jobs)
    chosen = [TABLE_FOUR[number] for number in drawn.tolist()]
    instructions, ipc = (np.array([getattr(one, field) for one in chosen]) for field in ("instructions", "ipc"))
    ones = np.ones(jobs, dtype=np.int64)
    return TaskWorkload(
        f"npb-{jobs}",
        tuple(f"job{number}" for number in range(1, jobs + 1)),
        np.sort(rng.uniform(0.0, span_s, size=jobs)),
        ones,
        ones,
        instructions,
        ipc,
        np.zeros(jobs),
        np.array([one.volume_mb for one in chosen]),
        instructions / ipc / (_REFERENCE_GHZ * 1e9),
        tuple(one.name for one in chosen),
    )
