"""Published schedules: when each job started."""

import csv
import gzip
from pathlib import Path


def published_starts(path: Path) -> dict[int, float]:
    """Return start times by job number, of a table of ``job_id`` and ``start``."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {int(row["job_id"]): float(row["start"]) for row in csv.DictReader(lines)}


def published_waits(path: Path) -> dict[int, float]:
    """Return waits by job number, of a schedule in the Standard Workload Format."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    return {int(row[0]): float(row[2]) for row in rows}
