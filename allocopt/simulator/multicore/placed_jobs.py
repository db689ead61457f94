"""Where and when jobs were started elsewhere, as CSV, with what was measured of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import bad_file, shown
from allocopt.simulator.multicore.simulation import Placed

COLUMNS = ("job_id", "node", "start_s")
DURATION = "duration_s"
SECONDS = "a time in seconds"
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
    known = {name.removeprefix(PREFIX): name for name in names} | {name: name for name in names}
    jobs = PlacedJobs({}, {})
    for place, row in csv_rows(path, COLUMNS, "jobs"):
        if row["job_id"] not in known:
            raise bad_file(path, place, f"job_id is {shown(row['job_id'])}, the workload has no such job")
        name = known[row["job_id"]]
        if name in jobs.placed:
            raise bad_file(path, place, f"job_id is {shown(row['job_id'])}, which comes twice")
        jobs.placed[name] = Placed(row["node"], number_at_least_0(path, place, row, "start_s", SECONDS))
        if DURATION in row:
            jobs.duration_s[name] = number_at_least_0(path, place, row, DURATION, SECONDS)
            if not jobs.duration_s[name]:
                raise bad_file(path, place, f"{DURATION} is {shown(row[DURATION])}, must be positive")
    return jobs
