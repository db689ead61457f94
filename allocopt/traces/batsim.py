"""Workloads of Batsim in JSON: jobs that refer to profiles, of which those of type ``delay`` are run times."""

import re
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field

from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import compact_json, write_text
from allocopt.traces.philly import read_philly
from allocopt.traces.records import Damage, Records, TraceFormat, rows_of
from allocopt.traces.workload import Workload

RUN_USED = "no walltime, run time used"

_NO_WALLTIME = -1.0
_FIELDS = {"job": "id", "submit": "subtime"}
_MOST = int(LARGEST)
_ID = re.compile(r"(?:.*!)?(-?[0-9]{1,18})", re.DOTALL)


def _job_number(given: object) -> object:
    # Batsim's own ids have the name of their workload before them.
    if not isinstance(given, str):
        return given
    found = _ID.fullmatch(given)
    if found is None:
        raise ValueError(f'is {shown(given)}, must be an integer, alone or as in "17" or "workload!17"')
    return int(found.group(1))


_Count = Annotated[int, Field(ge=-_MOST, le=_MOST)]
_Seconds = Annotated[float, Field(ge=-_MOST, le=_MOST)]


# Keys that are not known are ignored, as Batsim does.
class _Job(FileModel, extra="ignore"):
    id: Annotated[_Count, BeforeValidator(_job_number)]
    subtime: _Seconds
    res: _Count
    walltime: _Seconds = _NO_WALLTIME
    profile: str


class _File(FileModel, extra="ignore"):
    nb_res: Annotated[int, Field(ge=1, le=_MOST)]
    jobs: Annotated[list[_Job], Field(min_length=1)]
    # A profile is looked at when a job uses it: others may be of types that have no fixed run time.
    profiles: dict[str, object]


class _Delay(FileModel, extra="ignore"):
    delay: _Seconds


class Batsim(TraceFormat):
    """Batsim's JSON: the delay of a job's profile is its run time, its walltime, or else the run time, its estimate.

    Ids are integers, alone or as in ``"17"`` and ``"workload!17"``. The machine's size is ``nb_res``. A list is read as
    the job log of Philly.
    """

    def read(self, path: Path, damage: Damage) -> Workload:
        given = parse_json(read_text(path), path)
        if isinstance(given, list) and given:
            return read_philly(path, given, damage)
        model = validated(_File, given, path)
        delays: dict[str, float] = {}
        for number, job in enumerate(model.jobs):
            if job.walltime <= 0 and job.walltime != _NO_WALLTIME:
                fault = f"is {job.walltime:g}, must be positive, or -1 for none"
                raise bad_file(path, f"jobs[{number}].walltime", fault)
            if (name := job.profile) in delays:
                continue
            if name not in model.profiles:
                raise bad_file(path, f"jobs[{number}].profile", f"is {shown(name)}, there is no such profile")
            where, profile = f"{path}: profile {shown(name)}", model.profiles[name]
            if isinstance(profile, dict) and profile.get("type", "delay") != "delay":
                fault = f"is {shown(profile['type'])}, must be 'delay': others have no fixed run time"
                raise bad_file(where, "type", fault)
            if isinstance(profile, dict) and "type" not in profile:
                raise bad_file(where, "type", "is missing, must be 'delay'")
            delays[name] = validated(_Delay, profile, where).delay
        run = np.array([delays[job.profile] for job in model.jobs])
        walltime = np.array([job.walltime for job in model.jobs])
        missing = walltime == _NO_WALLTIME
        records = Records(
            path,
            lambda row, place, fault: bad_file(path, f"jobs[{row}].{_FIELDS[place]}", fault),
            np.array([job.id for job in model.jobs], dtype=np.int64),
            np.array([job.subtime for job in model.jobs]),
            run,
            np.array([job.res for job in model.jobs], dtype=np.int64),
            np.where(missing, run, walltime),
            {RUN_USED: missing},
        )
        return records.workload(damage, model.nb_res)

    def write(self, path: Path, workload: Workload) -> None:
        # Every run time becomes a profile of type ``delay``, every estimate a walltime.
        rows = list(rows_of(path, workload))
        jobs = ",\n".join(
            f'    {{"id": {row.job}, "subtime": {row.submit}, "walltime": {row.estimate}, "res": {row.processors}, '
            f'"profile": "delay_{row.run}"}}'
            for row in rows
        )
        delays = ",\n".join(
            f'    "delay_{run}": {{"type": "delay", "delay": {run}}}' for run in sorted({row.run for row in rows})
        )
        head = f'  "description": {compact_json(workload.name)},\n  "nb_res": {_machine(workload)},\n'
        write_text(path, f'{{\n{head}  "jobs": [\n{jobs}\n  ],\n  "profiles": {{\n{delays}\n  }}\n}}\n')

    def losses(self, workload: Workload) -> list[str]:
        losses = super().losses(workload)
        if not workload.machine_processors:
            losses.append(f"size of the machine not known, that of the largest job written: {_machine(workload)}")
        return losses


def _machine(workload: Workload) -> int:
    # The format demands one: where the workload does not say, it is that of the largest job.
    return workload.machine_processors or int(workload.processors.max(initial=1))
