"""Workloads of IRMaSim: jobs of tasks of its JSON files, and batches of NAS parallel benchmarks, run serially.

The simulator was validated with such batches (section VI and Table IV).
"""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from allocopt.arrays import FloatArray
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.files.faults import bad_file, shown
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


class _File(FileModel, extra="ignore"):
    jobs: Annotated[list[dict[str, object]], Field(min_length=1)]
    profiles: Annotated[dict[str, object], Field(default_factory=dict)]


def read_irmasim(path: Path | str) -> TaskWorkload:
    """Read a workload of IRMaSim, plain or compressed (``.gz``).

    A job has ``res`` tasks on one node, or ``nodes``, ``ntasks`` and ``ntasks_per_node``, of which one may be left
    out; without the last, a task for each node. ``req_ops``, ``ipc`` and ``mem_vol`` (MB) are those of each task, and
    so is ``mem`` (MB); ``req_time`` is the estimate. They stand in the job or in its profile. Raises `BadFileError` if
    the file cannot be read or anything in it is wrong; it names the job and the field.
    """
    path = Path(path)
    model = validated(_File, parse_json(read_text(path), path), path)
    jobs, profiles = [], []
    for number, given in enumerate(model.jobs):
        job = validated(_Job, given, f"{path}: jobs[{number}]")
        jobs.append(job)
        profiles.append(_profile(path, number, job, given, model.profiles))
    names = tuple(f"job{number}" if job.id is None else str(job.id) for number, job in enumerate(jobs))
    shapes = np.array([_shape(path, number, job) for number, job in enumerate(jobs)])

    def column(name: str) -> FloatArray:
        return np.array([getattr(profile, name) for profile in profiles], dtype=np.float64)

    try:
        return TaskWorkload(
            trace_name(path),
            names,
            np.array([job.subtime for job in jobs], dtype=np.float64),
            shapes[:, 0],
            shapes[:, 1],
            column("req_ops"),
            column("ipc"),
            column("mem"),
            column("mem_vol"),
            column("req_time"),
            tuple(job.profile or "" for job in jobs),
        )
    except InvalidProblemError as error:
        raise bad_file(path, str(error)) from None


def _profile(
    path: Path, number: int, job: _Job, given: Mapping[str, object], profiles: Mapping[str, object]
) -> _Profile:
    if job.profile is None:
        return validated(_Profile, given, f"{path}: jobs[{number}]")
    if job.profile not in profiles:
        raise bad_file(path, f"jobs[{number}].profile", f"is {shown(job.profile)}, there is no such profile")
    return validated(_Profile, profiles[job.profile], f"{path}: profile {shown(job.profile)}")


def _shape(path: Path, number: int, job: _Job) -> tuple[int, int]:
    # Nodes and tasks of a job, of which one may follow from the other.
    place = f"jobs[{number}]"
    several = (job.nodes, job.ntasks, job.ntasks_per_node)
    if job.res is not None:
        if several != (None, None, None):
            raise bad_file(path, place, "has res and also nodes, ntasks or ntasks_per_node; must have one or the other")
        return 1, job.res
    per_node = job.ntasks_per_node or 1
    tasks = (job.nodes or 0) * per_node if job.ntasks is None else job.ntasks
    if not tasks:
        raise bad_file(path, place, "has none of res, ntasks and nodes")
    nodes = ceil(tasks / per_node)
    if None not in several and job.nodes != nodes:
        fault = f"has {tasks} tasks, {per_node} on each node, and {job.nodes} nodes, must be {nodes}"
        raise bad_file(path, place, fault)
    return job.nodes or nodes, tasks


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
    """Return a batch of serial jobs, each a benchmark of Table IV drawn at random, submitted uniformly within a span.

    Raises `UsageError` if there is not at least one job, or the span, in seconds, is negative.
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
