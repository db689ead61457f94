"""Workloads of Batsim, from version 1 to 5.0: jobs whose profiles are delays, or sequences of delays.

See Batsim's documentation, "Workload": https://batsim.readthedocs.io. Version 5 renamed the profile types ``delay`` and
``composed`` to ``DelayProfile`` and ``SequentialCompositionProfile``.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, Field, PlainValidator, ValidationError

from allocopt.errors import BadFileError
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, first_fault, validated
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import compact_json, write_text
from allocopt.traces.csv_columns import Columns
from allocopt.traces.jobs import JobRecord, workload_of
from allocopt.traces.records import Damage, TraceFormat, rows_of
from allocopt.traces.workload import Workload

RUN_USED = "no walltime, run time used"
EXTRA = "extra_data not read"
SEVERAL = "dependencies on several jobs not modelled, ignored"
NO_RUN_TIME = "profile type {} has no fixed run time"

_NO_WALLTIME = -1.0
_MOST = int(LARGEST)
_DELAYS = frozenset(("delay", "DelayProfile"))
_SEQUENCES = frozenset(("composed", "SequentialCompositionProfile"))
_DEEPEST = 50  # nested sequences
# Batsim may put the name of the workload before an id: ``w0!12``.
_ID = re.compile(r"(?:.*!)?(-?[0-9]{1,16})", re.DOTALL)

_Count = Annotated[int, Field(ge=-_MOST, le=_MOST)]
_Seconds = Annotated[float, Field(ge=-_MOST, le=_MOST)]


def _id(given: object) -> str:
    if isinstance(given, bool) or not isinstance(given, int | str) or given == "":
        raise ValueError(f"is {shown(given)}, must be an integer or a text")
    if isinstance(given, int) and abs(given) > _MOST:
        raise ValueError(f"is {given}, must be within 2^53 of 0")
    found = _ID.fullmatch(str(given))
    return found[1] if found else str(given)


# Unknown keys are ignored, as in Batsim.
class _Job(FileModel, extra="ignore"):
    id: Annotated[str, PlainValidator(_id)]
    subtime: _Seconds
    res: _Count
    walltime: _Seconds = _NO_WALLTIME
    profile: str
    dependencies: tuple[str | int, ...] | list[str | int] = ()
    extra_data: Any = None


class _File(FileModel, extra="ignore"):
    nb_res: Annotated[int, Field(ge=1, le=_MOST)]
    # Jobs are validated one by one, so that a damaged job does not affect the others.
    jobs: Annotated[list[object], Field(min_length=1)]
    # Profiles are validated when a job uses them.
    profiles: dict[str, object]


class _Delay(FileModel, extra="ignore"):
    delay: _Seconds


class _Sequence(FileModel, extra="ignore"):
    seq: Annotated[list[str], Field(min_length=1)]
    # Called ``nb`` before version 2.
    repeat: Annotated[int, Field(ge=1, le=_MOST, validation_alias=AliasChoices("repeat", "nb"))] = 1


class Batsim(TraceFormat):
    """Batsim's JSON format.

    The delay of a job's profile is its run time. Its walltime, or else the run time, is its estimate. Integer ids, also
    as ``"17"`` or ``"workload!17"``, become the numbers of jobs; other ids become their names. The machine's size is
    ``nb_res``. Jobs whose profile is neither a delay nor a sequence of delays have no fixed run time: they are left out
    and counted by the type of the profile.
    """

    def read(self, path: Path, damage: Damage) -> Workload:
        return self.read_parsed(path, parse_json(read_text(path), path), damage, Columns())

    def read_parsed(self, path: Path, given: object, damage: Damage, columns: Columns) -> Workload:
        """Read a workload from parsed JSON."""
        model = validated(_File, given, path)
        profiles = _Profiles(path, model.profiles)
        faults: list[BadFileError] = []
        records: list[JobRecord] = []
        for number, described in enumerate(model.jobs):
            try:
                records.append(_record(path, number, described, profiles))
            except BadFileError as error:
                faults.append(error)
        damage.drop(len(faults), faults, left=len(records))
        names = {"job": ".id", "submit": ".subtime"}
        return workload_of(
            path, records, damage, machine=model.nb_res, columns=names, from_first=False, no_limit=RUN_USED
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
            losses.append(f"size of the machine unknown, size of the largest job written: {_machine(workload)}")
        return losses


def read_batsim(path: Path, parsed: object, damage: Damage, columns: Columns) -> Workload:
    """Read a workload from parsed JSON; see `Batsim`."""
    return Batsim().read_parsed(path, parsed, damage, columns)


class _Profiles:
    """Run times of profiles, by name."""

    def __init__(self, path: Path, profiles: Mapping[str, object]) -> None:
        self._path = path
        self._profiles = profiles
        self._known: dict[str, tuple[float, str]] = {}

    def run_s(self, place: str, name: str, depth: int = 0) -> tuple[float, str]:
        """Return a profile's run time in seconds, and the first type in it that has no fixed run time, empty for none.

        Raises `BadFileError` if the profile is missing, malformed, or contains itself.
        """
        if name not in self._known:
            self._known[name] = self._look(place, name, depth)
        return self._known[name]

    def _look(self, place: str, name: str, depth: int) -> tuple[float, str]:
        if name not in self._profiles:
            raise bad_file(self._path, place, f"is {shown(name)}, there is no such profile")
        where, profile = f"{self._path}: profile {shown(name)}", self._profiles[name]
        if not isinstance(profile, dict):
            raise bad_file(where, f"is {shown(profile)}, must be an object")
        kind = profile.get("type")
        if not isinstance(kind, str):
            raise bad_file(where, "type", "is missing, must be such as 'delay' or 'DelayProfile'")
        if kind in _DELAYS:
            return validated(_Delay, profile, where).delay, ""
        if kind not in _SEQUENCES:
            return math.nan, kind
        if depth == _DEEPEST:
            raise bad_file(where, "seq", f"nests more than {_DEEPEST} sequences, or contains itself")
        sequence = validated(_Sequence, profile, where)
        parts = [self.run_s(f"profile {shown(name)}: seq", part, depth + 1) for part in sequence.seq]
        other = next((other for _, other in parts if other), "")
        run_s = sequence.repeat * sum(run for run, _ in parts)
        if run_s > _MOST:
            raise bad_file(where, "repeat", f"gives a run time of {run_s:g} s, must be at most 2^53 s")
        return run_s, other


def _record(path: Path, number: int, given: object, profiles: _Profiles) -> JobRecord:
    place = f"jobs[{number}]"
    try:
        job = _Job.model_validate(given)
    except ValidationError as error:
        inside, fault = first_fault(error, given)
        raise bad_file(path, place if inside == "top level" else f"{place}.{inside}", fault) from None
    if job.walltime <= 0 and job.walltime != _NO_WALLTIME:
        raise bad_file(path, f"{place}.walltime", f"is {job.walltime:g}, must be positive, or -1 for none")
    run_s, other = profiles.run_s(f"{place}.profile", job.profile)
    remarks = [EXTRA] if job.extra_data not in (None, "", {}) else []
    remarks += [SEVERAL] if len(job.dependencies) > 1 else []
    return JobRecord(
        place=place,
        number=number,
        job=job.id,
        submit=job.subtime,
        # A job without a fixed run time is left out; see ``left_out``.
        run=0.0 if other else run_s,
        estimate=job.walltime,
        size=job.res,
        after=_id(job.dependencies[0]) if len(job.dependencies) == 1 else "",
        left_out=NO_RUN_TIME.format(other) if other else "",
        remarks=tuple(remarks),
    )


def _machine(workload: Workload) -> int:
    # The format requires a size; if it is unknown, the size of the largest job is used.
    return workload.machine_processors or int(workload.processors.max(initial=1))
