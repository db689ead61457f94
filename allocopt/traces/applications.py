"""The four workflows of the ASAX paper as staged jobs that reproduce its Table 2, and the queue of its evaluation.

Table 2 gives, for space sharing on 64, 128 and 256 cores, the mean run time over the job sizes with its spread, and the
CPU and memory utilization. Two values are derived from it:

- The run time on c cores is ``serial_h + parallel_h / c`` (Amdahl). The paper says that the spread shows how an
  application scales. So ``parallel_h`` is the spread of the run times divided by the spread of 1 / c; the mean run time
  then gives ``serial_h``.
- The busy cores of a parallel stage follow from the CPU utilization. This is the mean over all stages, their time and
  the job sizes, and a sequential stage keeps one core busy.

The paper describes only in words which share of the time is sequential and how much of it is I/O (section 4.2). The
numbers for these are chosen in this module.

A trace states which executable each job runs. The profiles of executables are those of the workflows, or are read from
a file.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from allocopt.errors import InvalidProblemError, UsageError
from allocopt.files.faults import bad_file, problem_faults_named
from allocopt.files.models import FileModel, Text, validated
from allocopt.files.reading import read_toml
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind, check_profile
from allocopt.traces.workload import Workload

# Cores of the jobs of Montage, BLAST and Statistics; Synthetic leaves out the first (section 4.4).
_SIZES = (8, 16, 32, 64)

CLUSTER_SIZES = (64, 128, 256)
HOUR_S = 3600.0
_LEAST_BUSY = 0.01
_S, _P = StageKind.SEQUENTIAL, StageKind.PARALLEL


class _Published(NamedTuple):
    # A line of Table 2: hours and their spread, percent of CPU and memory, under space sharing.
    runtime_h: float
    spread: float
    cpu_percent: float
    memory_percent: float


@dataclass(frozen=True, slots=True)
class _Application:
    name: str
    sizes: tuple[int, ...]  # cores of its jobs
    # Kind, share of the time and share of I/O of each stage, in order.
    stages: tuple[tuple[StageKind, float, float], ...]
    published: tuple[_Published, ...]  # its lines of Table 2, one for each of `CLUSTER_SIZES`

    def runtime_s(self, cores: int, cluster: int = 64) -> float:
        """Return the run time on ``cores`` cores without other jobs, in seconds."""
        line, inverse = self._line(cluster), 1.0 / np.array(self.sizes)
        parallel_h = line.spread * line.runtime_h / float(inverse.std())
        serial_h = line.runtime_h - parallel_h * float(inverse.mean())
        return HOUR_S * (max(0.0, serial_h) + parallel_h / cores)

    def profile(self, cores: int, cluster: int = 64) -> tuple[Stage, ...]:
        """Return the stages of a job on ``cores`` cores."""
        line = self._line(cluster)
        # The published utilization is a mean over sizes and time. Subtract the known part of sequential stages.
        sequential = sum(share for kind, share, _ in self.stages if kind is _S)
        alone = sequential * float((1.0 / np.array(self.sizes)).mean())
        busy = min(1.0, max(_LEAST_BUSY, (line.cpu_percent / 100 - alone) / (1.0 - sequential)))
        return tuple(
            Stage(share, 1.0 / cores if kind is _S else busy, line.memory_percent / 100, io, kind)
            for kind, share, io in self.stages
        )

    def job(self, identifier: str, cores: int, walltime_factor: float = 2.0, cluster: int = 64) -> ProfiledJob:
        """Return a job that has not begun; its limit is its run time times ``walltime_factor``."""
        run = self.runtime_s(cores, cluster)
        return ProfiledJob(identifier, cores, self.profile(cores, cluster), run, walltime_factor * run)

    def _line(self, cluster: int) -> _Published:
        if cluster not in CLUSTER_SIZES:
            known = ", ".join(map(str, CLUSTER_SIZES))
            raise UsageError(f"Table 2 has no cluster of {cluster} cores; it has {known}")
        return self.published[CLUSTER_SIZES.index(cluster)]


_APPLICATIONS = (
    # I/O-intensive; nine stages, grouped into two parallel and two sequential ones.
    _Application(
        "montage", _SIZES, ((_P, 0.3, 0.5), (_S, 0.2, 0.4), (_P, 0.3, 0.5), (_S, 0.2, 0.4)),
        (_Published(0.35, 0.04, 45, 10), _Published(0.32, 0.04, 33, 7), _Published(0.29, 0.04, 21, 5)),
    ),
    # Compute-intensive; one parallel stage, then a sequential one.
    _Application(
        "blast", _SIZES, ((_P, 0.97, 0.05), (_S, 0.03, 0.05)),
        (_Published(0.71, 0.21, 96, 44), _Published(0.72, 0.22, 95, 45), _Published(0.70, 0.21, 91, 42)),
    ),
    # I/O- and network-intensive; two sequential and two parallel stages.
    _Application(
        "statistics", _SIZES, ((_S, 0.25, 0.3), (_P, 0.25, 0.4), (_S, 0.25, 0.3), (_P, 0.25, 0.4)),
        (_Published(0.69, 0.10, 26, 5), _Published(0.70, 0.10, 16, 1), _Published(0.72, 0.10, 10, 1)),
    ),
    # Data- and compute-intensive; a sequential stage that fills the memory, then a parallel one.
    _Application(
        "synthetic", _SIZES[1:], ((_S, 0.01, 0.2), (_P, 0.99, 0.05)),
        (_Published(0.49, 0.15, 99, 95), _Published(0.50, 0.15, 99, 93), _Published(0.48, 0.14, 99, 92)),
    ),
)  # fmt: skip
APPLICATIONS = MappingProxyType({app.name: app for app in _APPLICATIONS})
"""The four workflows by name."""

JOBS = sum(len(one.sizes) for one in _APPLICATIONS)
"""Number of jobs in one repeat of the evaluation's queue: 15."""
# Time limit divided by the run time without other jobs. The paper says that users ask for more than they need, but not
# how much more.
_WALLTIME_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that runs an application, submitted at ``submit_s`` seconds."""

    application: str
    submit_s: float
    job: ProfiledJob


# The evaluation repeats the 15 jobs of the four workflows three times (section 4.4). The paper states 512 cores in
# total; the job sizes, 8 to 64 for three workflows and 16 to 64 for the fourth, sum to 472.
def asax_queue(
    rng: np.random.Generator,
    repeats: int = 3,
    walltime_factor: float = _WALLTIME_FACTOR,
    cluster: int = CLUSTER_SIZES[0],
    between_s: float = 0.0,
    spread: float = 0.0,
) -> tuple[QueuedJob, ...]:
    """Draw the evaluation's queue; each repeat has the 15 jobs in a random order.

    Parameters
    ----------
    rng
        Source of randomness.
    repeats
        How often the 15 jobs are submitted.
    walltime_factor
        Time limit divided by the run time without other jobs.
    cluster
        Cores of the cluster, one of `CLUSTER_SIZES`; selects the lines of Table 2.
    between_s
        Mean of the exponentially distributed seconds between submissions; 0 submits all jobs at once.
    spread
        Run times are those of the applications times a factor drawn from 1 - spread to 1 + spread.
    """
    queue: list[QueuedJob] = []
    now, kinds = 0.0, [(app, cores) for app in _APPLICATIONS for cores in app.sizes]
    for repeat in range(repeats):
        for place in rng.permutation(len(kinds)).tolist():
            app, cores = kinds[place]
            job = app.job(f"{app.name}-{cores}-{repeat + 1}", cores, walltime_factor, cluster)
            factor = float(rng.uniform(1 - spread, 1 + spread)) if spread else 1.0
            job = replace(job, remaining_s=job.remaining_s * factor)
            queue.append(QueuedJob(app.name, now, job))
            now += float(rng.exponential(between_s)) if between_s else 0.0
    return tuple(queue)


def queue_workload(queue: tuple[QueuedJob, ...], name: str = "asax-queue") -> Workload:
    """Return the queue as a workload; the paper's workflows are executables 1 to 4, others are 0."""
    numbers = defaultdict(int, {application: number for number, application in enumerate(APPLICATIONS, 1)})
    return Workload(
        name,
        ids=np.arange(1, len(queue) + 1),
        submit=np.array([one.submit_s for one in queue]),
        run=np.array([one.job.remaining_s for one in queue]),
        estimate=np.array([one.job.walltime_s for one in queue]),
        processors=np.array([one.job.cores for one in queue]),
        executables=np.array([numbers[one.application] for one in queue]),
    )


@dataclass(frozen=True, slots=True)
class Executable:
    """An application; a sequential stage of its profile keeps one core busy, however many cores the job has."""

    name: str
    profile: tuple[Stage, ...]

    def __post_init__(self) -> None:
        check_profile(f"profile of {self.name}", self.profile)

    def on(self, cores: int) -> tuple[Stage, ...]:
        """Return the stages of a job on ``cores`` cores."""
        return tuple(replace(one, cpu=1.0 / cores) if one.kind is _S else one for one in self.profile)


Executables = Mapping[int, Executable]
"""Applications by their numbers in a trace."""

WORKFLOWS: Executables = MappingProxyType(
    {number: Executable(name, one.profile(1)) for number, (name, one) in enumerate(APPLICATIONS.items(), 1)}
)
"""Montage, BLAST, Statistics and Synthetic, numbered from 1."""


def profiled_jobs(workload: Workload, executables: Executables) -> tuple[QueuedJob, ...]:
    """Return the jobs of a workload, in its order, with the profiles of their applications."""
    jobs = []
    columns = ("ids", "executables", "processors", "submit", "run", "estimate")
    rows = zip(*(getattr(workload, column).tolist() for column in columns), strict=True)
    for job, number, cores, submit, run, estimate in rows:
        if number not in executables:
            known = ", ".join(f"{number} {one.name}" for number, one in executables.items())
            fault = f"its executable is {number}, which has no profile (profiles: {known}); add it with profiles = FILE"
            raise InvalidProblemError(f"job {job}", fault)
        one = executables[number]
        jobs.append(QueuedJob(one.name, submit, ProfiledJob(str(job), cores, one.on(cores), run, estimate)))
    return tuple(jobs)


ShareOfOne = Annotated[float, Field(ge=0, le=1)]


class _StageModel(FileModel):
    share: Annotated[ShareOfOne, Field(description="Share of the run time without other jobs; shares sum to 1.")]
    cpu: Annotated[ShareOfOne, Field(description="Share of the job's cores that a parallel stage keeps busy.")] = 1.0
    memory: Annotated[ShareOfOne, Field(description="Share of the memory that belongs to the job's cores.")] = 0.0
    io: Annotated[ShareOfOne, Field(description="Share of the time in which it does I/O, without other jobs.")] = 0.0
    kind: Annotated[Literal["sequential", "parallel"], Field(description="Use of one core or of all cores.")] = (
        "parallel"
    )


class _ApplicationModel(FileModel):
    executable: Annotated[int, Field(ge=0, description="Its number in traces.")]
    name: Annotated[Text, Field(description="Its name.")]
    stages: Annotated[list[_StageModel], Field(min_length=1, description="Its stages, in order.")]


class _ProfilesModel(FileModel):
    application: Annotated[list[_ApplicationModel], Field(min_length=1, description="The applications.")]


def read_profiles(path: Path | str) -> Executables:
    """Read a TOML file of profiles: tables ``[[application]]`` with ``executable``, ``name`` and ``stages``.

    Each stage has a ``share`` and may have ``cpu``, ``memory``, ``io`` and ``kind``. Raises `BadFileError`, which names
    the place, if the file cannot be read or a value is wrong.
    """
    table: dict[int, Executable] = {}
    for index, model in enumerate(validated(_ProfilesModel, read_toml(Path(path)), path).application):
        if model.executable in table:
            raise bad_file(path, f"application[{index}].executable", f"is {model.executable}, which is used twice")
        stages = (Stage(one.share, one.cpu, one.memory, one.io, StageKind(one.kind)) for one in model.stages)
        with problem_faults_named(path):
            table[model.executable] = Executable(model.name, tuple(stages))
    return table
