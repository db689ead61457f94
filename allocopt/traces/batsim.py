"""Workloads of Batsim in JSON: jobs that refer to profiles, of which those of type ``delay`` are run times."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import validated
from allocopt.files.reading import parse_json, read_text
from allocopt.traces.names import trace_name
from allocopt.traces.records import Places, Records, workload_of
from allocopt.traces.table import LARGEST
from allocopt.traces.workload import Workload

RUN_USED = "no walltime, run time used"
NO_WALLTIME = -1.0
FIELDS = ("id", "subtime")
JOB, SUBMIT = 0, 1

_MOST = int(LARGEST)
_ID = re.compile(r"(?:.*!)?(-?[0-9]{1,18})", re.DOTALL)


def _job_number(given: object) -> object:
    """Take the number out of ``"17"`` and ``"workload!17"``."""
    if not isinstance(given, str):
        return given
    found = _ID.fullmatch(given)
    if found is None:
        raise ValueError(f'is {shown(given)}, must be an integer, alone or as in "17" or "workload!17"')
    return int(found.group(1))


def _possible_walltime(walltime: float) -> float:
    """Refuse a walltime that is neither a time nor the sign of none."""
    if walltime <= 0 and walltime != NO_WALLTIME:
        raise ValueError(f"is {walltime:g}, must be positive, or -1 for none")
    return walltime


Count = Annotated[int, Field(ge=-_MOST, le=_MOST)]
Seconds = Annotated[float, Field(ge=-_MOST, le=_MOST)]


class BatsimModel(BaseModel):
    """Exact types, no NaN; keys that are not known are ignored, as Batsim does."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, defer_build=True)


class JobModel(BatsimModel):
    """A job."""

    id: Annotated[Count, BeforeValidator(_job_number)]
    subtime: Seconds
    res: Count
    walltime: Annotated[Seconds, AfterValidator(_possible_walltime)] = NO_WALLTIME
    profile: str


class WorkloadModel(BatsimModel):
    """A whole file; profiles are looked at when a job uses them."""

    nb_res: Annotated[int, Field(ge=1, le=_MOST)]
    jobs: Annotated[list[JobModel], Field(min_length=1)]
    profiles: dict[str, object]


class DelayModel(BatsimModel):
    """A profile that is a run time."""

    delay: Seconds


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """The jobs of a file as the source of records."""

    path: Path
    ids: IntArray

    def integers(self, column: int) -> IntArray:
        """Values of the only column of integers that is asked for."""
        assert column == JOB
        return self.ids

    def error(self, row: int, column: int, fault: str) -> BadFileError:
        """Return an error that names the job and the field."""
        return bad_file(self.path, f"jobs[{row}].{FIELDS[column]}", fault)


def read_batsim(path: Path) -> Workload:
    """Read a workload of Batsim, plain or compressed (``.gz``).

    A job's run time is the delay of its profile, its estimate the walltime, or else the run time. Ids are integers,
    alone or as in ``"17"`` and ``"workload!17"``. Jobs without a positive run time and number of processors are
    dropped and counted. The machine's size is ``nb_res``.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    BadFileError
        If the file cannot be read, is not in the format, a job's profile is not a delay, or no job is left; it names
        the field or the profile.
    """
    model = validated(WorkloadModel, parse_json(read_text(path), path), path)
    source = _Source(path, np.array([job.id for job in model.jobs], dtype=np.int64))
    return workload_of(source, Places(JOB, SUBMIT), _records(path, model), trace_name(path), model.nb_res)


def _records(path: Path, model: WorkloadModel) -> Records:
    """Look up run times and fill in missing walltimes."""
    run = _run_times(path, model)
    walltime = np.array([job.walltime for job in model.jobs])
    missing = walltime == NO_WALLTIME
    return Records(
        np.array([job.subtime for job in model.jobs]),
        run,
        np.array([job.res for job in model.jobs], dtype=np.int64),
        np.where(missing, run, walltime),
        {RUN_USED: missing},
    )


def _run_times(path: Path, model: WorkloadModel) -> FloatArray:
    """Run time of every job, shape ``(jobs,)``, in seconds."""
    delays = dict(_delays(path, model))
    return np.array([delays[job.profile] for job in model.jobs])


def _delays(path: Path, model: WorkloadModel) -> Iterator[tuple[str, float]]:
    """Yield the name and delay of every profile that a job uses, in the order of their first use."""
    users: dict[str, int] = {}
    for number, job in enumerate(model.jobs):
        users.setdefault(job.profile, number)
    for name, number in users.items():
        if name not in model.profiles:
            raise bad_file(path, f"jobs[{number}].profile", f"is {shown(name)}, there is no such profile")
        yield name, _delay(f"{path}: profile {shown(name)}", model.profiles[name])


def _delay(where: str, profile: object) -> float:
    """Delay of a profile in seconds."""
    if isinstance(profile, dict) and profile.get("type", "delay") != "delay":
        raise bad_file(where, "type", f"is {shown(profile['type'])}, must be 'delay': others have no fixed run time")
    if isinstance(profile, dict) and "type" not in profile:
        raise bad_file(where, "type", "is missing, must be 'delay'")
    return validated(DelayModel, profile, where).delay
