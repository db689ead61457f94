"""The Grid Workload Format of the Grid Workloads Archive (https://atlarge-research.com/gwa.html).

A line has 29 columns: job number, submit time, wait, run time, processors, ..., requested processors (8), requested
time (9), ..., user (12). Lines that begin with ``#`` are comments. A missing value is -1.
"""

from collections.abc import Sequence
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, instant_s, resource_count
from allocopt.files.faults import bad_file
from allocopt.traces.csv_columns import Columns
from allocopt.traces.jobs import JobRecord, workload_of
from allocopt.traces.records import Damage
from allocopt.traces.workload import Workload

_FEWEST = 12
_UNKNOWN = frozenset(("-1", "-1.0", ""))


def read_gwf(path: Path, text: str, damage: Damage, columns: Columns) -> Workload:
    """Read the jobs of a trace; raise `BadFileError` if none is left."""
    records: list[JobRecord] = []
    faults: list[BadFileError] = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            records.append(_record(f"line {number}", len(records) + 1, fields))
        except ValueError as error:
            faults.append(bad_file(path, f"line {number}", str(error)))
    damage.drop(len(faults), faults, left=len(records))
    return workload_of(path, records, damage, ignored=columns.ignored)


def _record(place: str, number: int, fields: Sequence[str]) -> JobRecord:
    if len(fields) < _FEWEST:
        raise ValueError(f"has {len(fields)} columns, must have 29")
    job, submitted, wait, run, used, _, _, asked, limit, _, _, user = (
        "" if text in _UNKNOWN else text for text in fields[:_FEWEST]
    )
    submit = instant_s(submitted)
    return JobRecord(
        place=place,
        number=number,
        job=job,
        submit=submit,
        start=submit + duration_s(wait),
        run=duration_s(run),
        estimate=duration_s(limit),
        size=resource_count(asked, "") or resource_count(used, ""),
        user=user,
    )
