"""The job log of Microsoft's Philly cluster, a JSON list."""

from pathlib import Path
from typing import Any

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file
from allocopt.traces.csv_columns import Columns
from allocopt.traces.records import Damage
from allocopt.traces.rows import Rows
from allocopt.traces.workload import Workload

_COLUMNS = ("jobid", "user", "vc", "status", "submitted", "start", "end", "nodes", "gpus", "nodelist")


def read_philly(path: Path, jobs: list[Any], damage: Damage, columns: Columns) -> Workload:
    """Return the jobs of a parsed log.

    A job runs from the start of its first attempt to the end of its last, on the nodes and GPUs of the attempt that had
    the most GPUs.
    """
    rows: dict[int, list[str]] = {}
    faults: list[BadFileError] = []
    for number, job in enumerate(jobs):
        try:
            attempts = job["attempts"] or [{}]
            first, largest = attempts[0], max((one.get("detail", []) for one in attempts), key=_gpus)
            texts = [job["jobid"], *(job.get(key) for key in _COLUMNS[1:4]), job["submitted_time"]]
            texts += [first.get("start_time"), attempts[-1].get("end_time"), len(largest)]
            texts += [_gpus(largest), ",".join(one["ip"] for one in largest)]
            rows[number] = [str(text or "") for text in texts]
        except (KeyError, TypeError, AttributeError):
            fault = "is not a job of Philly, must have jobid, submitted_time, attempts"
            faults.append(bad_file(path, f"job {number}", fault))
    damage.drop(len(faults), faults, left=len(rows))
    return Rows(path, _COLUMNS, list(rows), list(rows.values()), columns, "job", -1).workload(damage)


def _gpus(detail: list[Any]) -> int:
    return sum(len(one["gpus"]) for one in detail)
