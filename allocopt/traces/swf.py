"""Standard Workload Format, version 2.2, of the Parallel Workloads Archive.

A line has 18 columns; further ones are ignored. Lines that begin with ``;`` are comments, those of the form ``; Key:
value`` a header. A missing value is -1.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from allocopt.files.faults import bad_file, printable, shown
from allocopt.files.writing import write_text
from allocopt.traces.records import Number, Records, Row, TraceFormat, rows_of
from allocopt.traces.table import LARGEST, Table
from allocopt.traces.workload import NO_JOB, UNKNOWN_EXECUTABLE, UNKNOWN_USER, Workload

_COLUMNS = {
    "job": (1, "job number"),
    "submit": (2, "submit time"),
    "run": (4, "run time"),
    "allocated": (5, "allocated processors"),
    "requested": (8, "requested processors"),
    "requested_time": (9, "requested time"),
    "user": (12, "user"),
    "executable": (14, "executable"),
    "preceding": (17, "preceding job"),
    "think": (18, "think time"),
}

ALLOCATED_USED = "no requested processors, allocated ones used"
RUN_USED = "no requested time, run time used"


class Swf(TraceFormat):
    """The Standard Workload Format, which holds all that a workload has.

    A job's processors are those it requested (column 8), or else those it was allocated (column 5); its estimate is
    the requested time (column 9), or else its run time (column 4). Repaired and counted are jobs whose preceding job
    (column 17) is not there. The machine's size is the header's ``MaxProcs``.
    """

    def read(self, path: Path) -> Workload:
        table = Table.read(path, _COLUMNS, 18)
        run = table.numbers("run")
        requested, requested_time = table.integers("requested"), table.numbers("requested_time")
        asks, estimates = requested > 0, requested_time > 0
        preceding = table.integers("preceding")
        records = Records(
            path,
            table.error,
            table.integers("job"),
            table.numbers("submit"),
            run,
            np.where(asks, requested, table.integers("allocated")),
            np.where(estimates, requested_time, run),
            {ALLOCATED_USED: ~asks, RUN_USED: ~estimates},
            # Archive files have other negative numbers than -1 where nothing is known.
            np.maximum(table.integers("user"), UNKNOWN_USER),
            preceding,
            np.where(preceding == NO_JOB, 0.0, np.maximum(table.numbers("think"), 0.0)),
            np.maximum(table.integers("executable"), UNKNOWN_EXECUTABLE),
        )
        # Real headers say more behind the number, such as the batch partition's share, or something else altogether.
        found = re.match(r"\d+(?=\s|$)", swf_header(table.lines).get("MaxProcs", ""), re.ASCII)
        if found and float(found.group()) > LARGEST:
            raise bad_file(path, "MaxProcs", f"is {shown(found.group())}, must be at most 2^53")
        return records.workload(int(found.group()) or None if found else None)

    def write(self, path: Path, workload: Workload) -> None:
        notes = (f"workload {workload.name}, times in seconds, unknown values -1", *workload.remarks())
        write_swf(path, ((row, -1, -1) for row in rows_of(path, workload)), workload.machine_processors, notes)

    def losses(self, workload: Workload) -> list[str]:
        return []


def write_swf(
    path: Path, jobs: Iterable[tuple[Row, Number, int]], processors: int | None, notes: Iterable[str]
) -> None:
    """Write jobs with their waits (column 3) and statuses (11), on a machine of so many processors if known."""
    # Processors are written as requested and as allocated.
    lines = [
        f"{row.job} {row.submit} {wait} {row.run} {row.processors} -1 -1 {row.processors} {row.estimate} -1 {status} "
        f"{row.user} -1 {row.executable} -1 -1 {row.preceding} {-1 if row.preceding == NO_JOB else row.think}"
        for row, wait, status in jobs
    ]
    fields = [("Version", "2.2"), ("MaxJobs", str(len(lines))), ("MaxRecords", str(len(lines)))]
    if processors:
        fields.append(("MaxProcs", str(processors)))
    fields += [("Note", printable(note)) for note in notes]
    write_text(path, "\n".join((*(f"; {key}: {value}" for key, value in fields), *lines, "")))


def swf_header(lines: list[str]) -> dict[str, str]:
    """Return the header by key, in the order of its lines; a key that comes again adds a line to its value."""
    header: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(":") if line.startswith(";") else ("", "", "")
        if colon:
            key, value = key.strip("; \t"), value.strip()
            header[key] = f"{header[key]}\n{value}" if key in header else value
    return header
