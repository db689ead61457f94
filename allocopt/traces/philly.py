"""The job log of Microsoft's Philly: a list of jobs in JSON, with the attempts of each and the nodes of these.

https://github.com/msr-fiddle/philly-traces.
"""

from pathlib import Path
from typing import Any

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file
from allocopt.traces.csv_columns import Columns
from allocopt.traces.csv_mapping import Rows, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

_HEADER = ("jobid", "user", "vc", "status", "submitted", "start", "end", "nodes", "gpus", "nodelist")


def read_philly(path: Path, jobs: list[Any], damage: Damage) -> Workload:
    """Return the jobs of a log that has been parsed.

    A job runs from the start of its first attempt to the end of its last, on the nodes of the first. Raises
    `BadFileError` if no job is left.
    """
    rows: dict[int, list[str]] = {}
    faults: dict[int, BadFileError] = {}
    for number, job in enumerate(jobs):
        try:
            attempts = job["attempts"] or [{}]
            first, detail = attempts[0], attempts[0].get("detail", [])
            texts = [job["jobid"], *(job.get(key) for key in _HEADER[1:4]), job["submitted_time"]]
            texts += [first.get("start_time"), attempts[-1].get("end_time"), len(detail)]
            texts += [sum(len(one["gpus"]) for one in detail), ",".join(one["ip"] for one in detail)]
            rows[number] = [str(text or "") for text in texts]
        except (KeyError, TypeError, AttributeError):
            fault = "is no job of Philly, must have jobid, submitted_time, attempts"
            faults[number] = bad_file(path, f"job {number}", fault)
    damage.drop(list(faults), faults.__getitem__)
    if not rows and damage.first is not None:
        raise damage.first
    return workload_of(Rows(path, _HEADER, list(rows), list(rows.values()), "job", -1), Columns(), damage)
