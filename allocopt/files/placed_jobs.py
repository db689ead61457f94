"""Where and when jobs were started elsewhere, as CSV, with what was measured of them."""

import csv
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text
from allocopt.simulator.multicore.simulation import Placed

COLUMNS = ("job_id", "node", "start_s")
DURATION = "duration_s"
PREFIX = "job"
"""What a job's name may have before the number by which the file names it."""


class PlacedJobs(NamedTuple):
    """Jobs that were started.

    Parameters
    ----------
    placed
        Where and when each was started, by name.
    duration_s
        Seconds that each took, by name; empty where that was not measured.
    """

    placed: dict[str, Placed]
    duration_s: dict[str, float]


def read_placed_jobs(path: Path | str, names: Sequence[str]) -> PlacedJobs:
    """Read where and when jobs were started.

    Parameters
    ----------
    path
        A CSV file with the columns ``job_id``, ``node``, ``start_s`` and, if known, ``duration_s``; ``.gz`` is
        decompressed.
    names
        Names of the jobs; ``job17`` may stand there as ``17``.

    Raises
    ------
    BadFileError
        If the file cannot be read, or a row is wrong; it names line and column.
    """
    path = Path(path)
    reader = csv.DictReader(read_text(path).splitlines())
    there = reader.fieldnames or ()
    missing = [name for name in COLUMNS if name not in there]
    if missing:
        raise bad_file(path, "line 1", f"has no column {', '.join(missing)}; the columns are {', '.join(COLUMNS)}")
    known = {name.removeprefix(PREFIX): name for name in names} | {name: name for name in names}
    jobs = PlacedJobs({}, {})
    for row in reader:
        line = f"line {reader.line_num}"
        if None in row or None in row.values():
            raise bad_file(path, line, f"does not have {len(there)} columns as line 1")
        if row["job_id"] not in known:
            raise bad_file(path, line, f"job_id is {shown(row['job_id'])}, the workload has no such job")
        name = known[row["job_id"]]
        if name in jobs.placed:
            raise bad_file(path, line, f"job_id is {shown(row['job_id'])}, which comes twice")
        jobs.placed[name] = Placed(row["node"], _seconds(path, line, "start_s", row["start_s"]))
        if DURATION in row:
            jobs.duration_s[name] = _seconds(path, line, DURATION, row[DURATION])
    return jobs


def _seconds(path: Path, line: str, name: str, cell: str) -> float:
    """Read a time."""
    try:
        number = float(cell)
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number >= 0):
        raise bad_file(path, line, f"{name} is {shown(cell)}, must be a time in seconds, not negative")
    return number
