"""Workloads in JSON: jobs of Batsim, whose profiles of type ``delay`` are run times, and the job log of Philly."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError

from allocopt.errors import BadFileError
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, first_fault, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import compact_json, write_text
from allocopt.traces.records import Damage, TraceFormat, rows_of, runnable_jobs
from allocopt.traces.tables import read_philly
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
    # Each is looked at alone, so that one that is damaged does not cost the others.
    jobs: Annotated[list[object], Field(min_length=1)]
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
        faults: list[BadFileError] = []
        kept: list[tuple[int, _Job]] = []
        for number, described in enumerate(model.jobs):
            try:
                kept.append((number, _job_of(path, number, described, model.profiles, delays)))
            except BadFileError as error:
                faults.append(error)
        damage.drop(len(faults), faults, left=len(kept))
        jobs = [job for _, job in kept]
        run = np.array([delays[job.profile] for job in jobs])
        walltime = np.array([job.walltime for job in jobs])
        missing = walltime == _NO_WALLTIME
        return runnable_jobs(
            path,
            lambda row, place, fault: bad_file(path, f"jobs[{kept[row][0]}].{_FIELDS[place]}", fault),
            damage,
            {RUN_USED: missing},
            model.nb_res,
            ids=np.array([job.id for job in jobs], dtype=np.int64),
            submit=np.array([job.subtime for job in jobs]),
            run=run,
            processors=np.array([job.res for job in jobs], dtype=np.int64),
            estimate=np.where(missing, run, walltime),
        )

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


def _job_of(path: Path, number: int, given: object, profiles: Mapping[str, object], delays: dict[str, float]) -> _Job:
    # The delay of its profile is put among the others.
    place = f"jobs[{number}]"
    try:
        job = _Job.model_validate(given)
    except ValidationError as error:
        inside, fault = first_fault(error, given)
        raise bad_file(path, place if inside == "top level" else f"{place}.{inside}", fault) from None
    if job.walltime <= 0 and job.walltime != _NO_WALLTIME:
        raise bad_file(path, f"{place}.walltime", f"is {job.walltime:g}, must be positive, or -1 for none")
    if (name := job.profile) in delays:
        return job
    if name not in profiles:
        raise bad_file(path, f"{place}.profile", f"is {shown(name)}, there is no such profile")
    where, profile = f"{path}: profile {shown(name)}", profiles[name]
    if isinstance(profile, dict) and profile.get("type", "delay") != "delay":
        fault = f"is {shown(profile['type'])}, must be 'delay': others have no fixed run time"
        raise bad_file(where, "type", fault)
    if isinstance(profile, dict) and "type" not in profile:
        raise bad_file(where, "type", "is missing, must be 'delay'")
    delays[name] = validated(_Delay, profile, where).delay
    return job


def _machine(workload: Workload) -> int:
    # The format demands one: where the workload does not say, it is that of the largest job.
    return workload.machine_processors or int(workload.processors.max(initial=1))
