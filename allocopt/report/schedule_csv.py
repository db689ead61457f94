"""A schedule as a CSV file, one job a line."""

from pathlib import Path

from allocopt.files.writing import write_text
from allocopt.report.schedule_rows import ScheduledRow, scheduled_rows
from allocopt.simulator.schedule import Schedule

HEADER = "job_id,submit,start,end,processors,run,estimate"


def write_schedule_csv(path: Path, schedule: Schedule) -> None:
    """Write when every job ran, in the order of submission; times in seconds, whole ones as integers.

    Column ``run`` is the time from start to end, so that of a job that was killed is the time until then.

    Parameters
    ----------
    path
        The file; ``.gz`` is compressed.
    schedule
        What to write, at least one job.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    """
    write_text(path, "\n".join((HEADER, *map(_line, scheduled_rows(path, schedule)), "")))


def _line(row: ScheduledRow) -> str:
    """Return the columns of a job."""
    job = row.job
    return f"{job.job},{job.submit},{row.start},{row.end},{job.processors},{job.run},{job.estimate}"
