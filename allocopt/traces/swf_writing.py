"""Writing the Standard Workload Format, version 2.2."""

from pathlib import Path

from allocopt.files.faults import printable
from allocopt.files.writing import write_text
from allocopt.traces.precedence import NONE
from allocopt.traces.rows import Row, rows_of
from allocopt.traces.workload import Workload

VERSION = "2.2"
UNKNOWN = -1


def write_swf(path: Path, workload: Workload) -> None:
    """Write a workload in the Standard Workload Format; `read_swf` makes the same jobs and machine of it.

    A job's processors are written as requested and as allocated; what is not known is -1. What was dropped and
    repaired is told in the header.

    Parameters
    ----------
    path
        The file; ``.gz`` is compressed.
    workload
        What to write, at least one job.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again.
    """
    jobs = map(_line, rows_of(path, workload))
    write_text(path, "\n".join((*_header(workload), *jobs, "")))


def _header(workload: Workload) -> list[str]:
    """Return the lines of comment at the top."""
    fields = [("Version", VERSION), ("MaxJobs", str(len(workload))), ("MaxRecords", str(len(workload)))]
    if workload.machine_processors:
        fields.append(("MaxProcs", str(workload.machine_processors)))
    notes = [f"workload {workload.name}, times in seconds, unknown values -1", *workload.remarks()]
    fields += [("Note", printable(note)) for note in notes]
    return [f"; {key}: {value}" for key, value in fields]


def _line(row: Row) -> str:
    """Return the 18 columns of a job; those that a workload does not have are -1."""
    think = UNKNOWN if row.preceding == NONE else row.think
    requested = f"{row.processors} {row.estimate} -1 -1 {row.user} -1 {row.executable}"
    return f"{row.job} {row.submit} -1 {row.run} {row.processors} -1 -1 {requested} -1 -1 {row.preceding} {think}"
