"""The job log of Microsoft's Philly: a list of jobs in JSON, with the attempts of each and the nodes of these.

https://github.com/msr-fiddle/philly-traces.
"""

from pathlib import Path

from pydantic import Field

from allocopt.errors import BadFileError
from allocopt.files.models import FileModel, validated
from allocopt.traces.csv_columns import Columns
from allocopt.traces.csv_mapping import Rows, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

_HEADER = ("jobid", "user", "vc", "status", "submitted", "start", "end", "nodes", "gpus", "nodelist")


class _Detail(FileModel, extra="ignore"):
    ip: str
    gpus: list[object]


class _Attempt(FileModel, extra="ignore"):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Detail] = Field(default_factory=list)


class _Job(FileModel, extra="ignore"):
    jobid: str
    submitted_time: str | None
    attempts: list[_Attempt]
    user: str | None = None
    vc: str | None = None
    status: str | None = None


def read_philly(path: Path, jobs: list[object], damage: Damage) -> Workload:
    """Return the jobs of a log that has been parsed.

    A job runs from the start of its first attempt to the end of its last, on the nodes of the first. Raises
    `BadFileError` if no job is left.
    """
    numbers: list[int] = []
    rows: list[list[str]] = []
    faults: dict[int, BadFileError] = {}
    for number, given in enumerate(jobs):
        try:
            job = validated(_Job, given, f"{path}: [{number}]")
        except BadFileError as error:
            faults[number] = error
            continue
        attempts = job.attempts or [_Attempt()]
        detail = attempts[0].detail
        gpus = sum(len(one.gpus) for one in detail)
        texts = (job.jobid, job.user, job.vc, job.status, job.submitted_time, attempts[0].start_time)
        numbers.append(number)
        rows.append([text or "" for text in (*texts, attempts[-1].end_time)])
        rows[-1] += [str(len(detail)), str(gpus), ",".join(one.ip for one in detail)]
    damage.drop(list(faults), faults.__getitem__)
    if not rows and damage.first is not None:
        raise damage.first
    return workload_of(Rows(path, _HEADER, numbers, rows, "job", -1), Columns(), damage)
