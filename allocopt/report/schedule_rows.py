"""The jobs of a schedule as rows of plain numbers, as the files of schedules hold them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from allocopt.simulator.schedule import Schedule
from allocopt.traces.rows import Number, Row, plain, rows_of


class ScheduledRow(NamedTuple):
    """A job and when it ran; times in seconds, whole ones as integers.

    Parameters
    ----------
    job
        The job, its run time being that from its start to its end.
    start, end
        When it ran.
    wait
        From its submission to its start.
    """

    job: Row
    start: Number
    end: Number
    wait: Number


def scheduled_rows(path: Path, schedule: Schedule) -> Iterator[ScheduledRow]:
    """Return the jobs of a schedule as rows, in the order of submission.

    Parameters
    ----------
    path
        The file that they are for, for error messages.
    schedule
        The schedule, at least one job.

    Raises
    ------
    BadFileError
        If there are no jobs, or one could not be read again; it names the job.
    """
    jobs = rows_of(path, replace(schedule.workload, run=schedule.run_s))
    waits = schedule.start - schedule.workload.submit
    return map(ScheduledRow, jobs, plain(schedule.start), plain(schedule.end), plain(waits))
