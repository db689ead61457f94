"""Which application each job of a trace runs, and the profile of each application."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file, problem_faults_named
from allocopt.files.models import FileModel, Text, validated
from allocopt.files.reading import read_toml
from allocopt.traces.applications import APPLICATIONS, QueuedJob
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind, check_profile
from allocopt.traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Executable:
    """An application; a sequential stage of its profile keeps one core busy, however many cores the job has.

    Raises `InvalidProblemError` if the profile is not one (`check_profile`).
    """

    name: str
    profile: tuple[Stage, ...]

    def __post_init__(self) -> None:
        check_profile(f"profile of {self.name}", self.profile)

    def on(self, cores: int) -> tuple[Stage, ...]:
        """Return the stages of a job of so many cores."""
        one_core = 1.0 / cores
        return tuple(
            replace(stage, cpu=one_core) if stage.kind is StageKind.SEQUENTIAL else stage for stage in self.profile
        )


Executables = Mapping[int, Executable]
"""Applications by the numbers that they have in a trace."""

WORKFLOWS: Executables = MappingProxyType(
    {number: Executable(name, one.profile(1)) for number, (name, one) in enumerate(APPLICATIONS.items(), 1)}
)
"""Montage, BLAST, Statistics and Synthetic, numbered from 1; see `allocopt.traces.applications`."""


def profiled_jobs(workload: Workload, executables: Executables) -> tuple[QueuedJob, ...]:
    """Return the jobs of a workload with the profiles of their applications, in its order.

    Raises `InvalidProblemError`, which names the job, if its application has no profile.
    """
    jobs = []
    rows = zip(workload.ids.tolist(), workload.executables.tolist(), workload.processors.tolist(), strict=True)
    times = zip(workload.submit.tolist(), workload.run.tolist(), workload.estimate.tolist(), strict=True)
    for (job, number, cores), (submit, run, estimate) in zip(rows, times, strict=True):
        if number not in executables:
            known = ", ".join(f"{number} {one.name}" for number, one in executables.items())
            fault = (
                f"its executable is {number}, there are profiles of {known}; profiles = FILE names a table of others"
            )
            raise InvalidProblemError(f"job {job}", fault)
        one = executables[number]
        jobs.append(QueuedJob(one.name, submit, ProfiledJob(str(job), cores, one.on(cores), run, estimate)))
    return tuple(jobs)


ShareOfOne = Annotated[float, Field(ge=0, le=1)]


class _StageModel(FileModel):
    share: Annotated[ShareOfOne, Field(description="Share of the run time alone; they sum to 1.")]
    cpu: Annotated[ShareOfOne, Field(description="Share of its cores that a parallel stage keeps busy alone.")] = 1.0
    memory: Annotated[ShareOfOne, Field(description="Share of the memory beside the job's cores.")] = 0.0
    io: Annotated[ShareOfOne, Field(description="Share of the time in which it does I/O, alone.")] = 0.0
    kind: Annotated[Literal["sequential", "parallel"], Field(description="Whether it uses one core or all.")] = (
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
            raise bad_file(path, f"application[{index}].executable", f"is {model.executable}, which is given before")
        stages = (Stage(one.share, one.cpu, one.memory, one.io, StageKind(one.kind)) for one in model.stages)
        with problem_faults_named(path):
            table[model.executable] = Executable(model.name, tuple(stages))
    return table
