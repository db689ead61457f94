"""Workloads of IRMaSim in JSON: jobs of tasks with instructions and memory volume, given or by profile."""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import validated
from allocopt.files.reading import parse_json, read_text
from allocopt.traces.names import trace_name
from allocopt.traces.tasks import TaskWorkload

MOST_TASKS = 1_000_000

Count = Annotated[int, Field(ge=1, le=MOST_TASKS)]
PositiveNumber = Annotated[float, Field(gt=0)]
Number = Annotated[float, Field(ge=0)]


class _Model(BaseModel):
    """Exact types, no NaN; keys that are not known are ignored, as IRMaSim does."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, defer_build=True)


class _Profile(_Model):
    """What the tasks of a job do."""

    req_ops: PositiveNumber
    ipc: PositiveNumber
    req_time: PositiveNumber
    mem: Number
    mem_vol: Number


class _Job(_Model):
    """A job, its profile left out."""

    id: str | int | None = None
    subtime: Number
    res: Count | None = None
    nodes: Count | None = None
    ntasks: Count | None = None
    ntasks_per_node: Count | None = None
    profile: str | None = None


class _File(_Model):
    """A whole file."""

    jobs: Annotated[list[dict[str, object]], Field(min_length=1)]
    profiles: dict[str, object] = {}


def read_irmasim(path: Path | str) -> TaskWorkload:
    """Read a workload of IRMaSim, plain or compressed (``.gz``).

    A job has ``res`` tasks on one node, or ``nodes``, ``ntasks`` and ``ntasks_per_node``, of which one may be left
    out; without the last, a task for each node. ``req_ops``, ``ipc`` and ``mem_vol`` (MB) are those of each task, and
    so is ``mem`` (MB); ``req_time`` is the estimate. They stand in the job or in its profile.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    BadFileError
        If the file cannot be read or anything in it is wrong; it names the job and the field.
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
    try:
        return TaskWorkload(
            trace_name(path),
            names,
            np.array([job.subtime for job in jobs], dtype=np.float64),
            shapes[:, 0],
            shapes[:, 1],
            _column(profiles, "req_ops"),
            _column(profiles, "ipc"),
            _column(profiles, "mem"),
            _column(profiles, "mem_vol"),
            _column(profiles, "req_time"),
            tuple(job.profile or "" for job in jobs),
        )
    except InvalidProblemError as error:
        raise bad_file(path, str(error)) from None


def _column(profiles: list[_Profile], name: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return a field of all jobs."""
    return np.array([getattr(profile, name) for profile in profiles], dtype=np.float64)


def _profile(
    path: Path, number: int, job: _Job, given: Mapping[str, object], profiles: Mapping[str, object]
) -> _Profile:
    """Return what a job does."""
    if job.profile is None:
        return validated(_Profile, given, f"{path}: jobs[{number}]")
    if job.profile not in profiles:
        raise bad_file(path, f"jobs[{number}].profile", f"is {shown(job.profile)}, there is no such profile")
    return validated(_Profile, profiles[job.profile], f"{path}: profile {shown(job.profile)}")


def _shape(path: Path, number: int, job: _Job) -> tuple[int, int]:
    """Return the nodes and tasks of a job."""
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
