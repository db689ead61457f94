"""A schedule in the Standard Workload Format: the trace that the simulated machine would have left."""

from collections.abc import Sequence
from pathlib import Path

from allocopt.files.faults import printable
from allocopt.files.writing import write_text
from allocopt.report.schedule_rows import ScheduledRow, scheduled_rows
from allocopt.simulator.schedule import Schedule
from allocopt.traces.swf import VERSION
from allocopt.traces.workload import NO_JOB
from allocopt.version import __version__

COMPLETED, UNKNOWN = 1, -1


def write_schedule_swf(path: Path, schedule: Schedule, notes: Sequence[str] = ()) -> None:
    """Write a schedule in the Standard Workload Format; `read_swf` makes its jobs and machine of it.

    Wait (column 3), run time (4) and status (11, completed) are those of the schedule, processors are written as
    allocated and as requested (5, 8), applications keep their numbers (14), and what is not known is -1.

    Parameters
    ----------
    path
        The file; ``.gz`` is compressed.
    schedule
        What to write, at least one job.
    notes
        How it was made, such as the scheduler's name; each becomes a note in the header.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again.
    """
    lines = map(_line, scheduled_rows(path, schedule))
    write_text(path, "\n".join((*_header(schedule, notes), *lines, "")))


def _header(schedule: Schedule, notes: Sequence[str]) -> list[str]:
    """Return the lines of comment at the top."""
    jobs = str(len(schedule.workload))
    made = f"schedule of {schedule.workload.name} simulated by allocopt {__version__}: wait, run time and status"
    fields = [("Version", VERSION), ("MaxJobs", jobs), ("MaxRecords", jobs), ("MaxProcs", str(schedule.processors))]
    told = [made, "times in seconds, unknown values -1", *notes, *schedule.workload.remarks()]
    fields += [("Note", printable(note)) for note in told]
    return [f"; {key}: {value}" for key, value in fields]


def _line(row: ScheduledRow) -> str:
    """Return the 18 columns of a job."""
    job = row.job
    think = UNKNOWN if job.preceding == NO_JOB else job.think
    used, memory, group, queue, partition = (UNKNOWN,) * 5
    return (
        f"{job.job} {job.submit} {row.wait} {job.run} {job.processors} {used} {memory} {job.processors} {job.estimate} "
        f"{memory} {COMPLETED} {job.user} {group} {job.executable} {queue} {partition} {job.preceding} {think}"
    )
