"""Files of schedules: one job a line as CSV or in the Standard Workload Format, and the energy of its parts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from allocopt.files.csv_rows import csv_text
from allocopt.files.writing import write_text
from allocopt.simulator.multicore.simulation import MulticoreSchedule
from allocopt.simulator.schedule import Schedule
from allocopt.traces.records import Number, Row, plain, rows_of
from allocopt.traces.text import write_swf
from allocopt.version import __version__

SCHEDULE_COLUMNS = ("job_id", "submit", "start", "end", "processors", "run", "estimate")
ENERGY_COLUMNS = ("part", "name", "energy_j", "energy_delay_js")
_COMPLETED = 1


def write_schedule_csv(path: Path, schedule: Schedule) -> None:
    """Write when every job ran, in the order of submission; times in seconds, whole ones as integers.

    A job's id is the trace's own, where that is a text. Column ``run`` is the time from start to end, so that of a job
    that was killed is the time until then. Raises `BadFileError` if there are no jobs, or the file cannot be written,
    or would not be read again.
    """
    names = (csv_text((), ([name],)).strip() if name else "" for name in schedule.workload.names)
    lines = (
        f"{name or job.job},{job.submit},{start},{end},{job.processors},{job.run},{job.estimate}"
        for name, (job, start, end, _) in zip(names, _rows(path, schedule), strict=True)
    )
    write_text(path, "\n".join((",".join(SCHEDULE_COLUMNS), *lines, "")))


def write_schedule_swf(path: Path, schedule: Schedule, notes: Sequence[str] = ()) -> None:
    """Write a schedule in the Standard Workload Format; `read_workload` makes its jobs and machine of it.

    Wait (column 3), run time (4) and status (11, completed) are those of the schedule, processors are written as
    allocated and as requested (5, 8), applications keep their numbers (14), and what is not known is -1. A name that
    ends in ``.gz`` is compressed; notes on how it was made stand in the header. Raises `BadFileError` if the file
    cannot be written, or would not be read again.
    """
    made = f"schedule of {schedule.workload.name} simulated by allocopt {__version__}: wait, run time and status"
    told = (made, "times in seconds, unknown values -1", *notes, *schedule.workload.remarks())
    rows = ((job, wait, _COMPLETED) for job, _, _, wait in _rows(path, schedule))
    write_swf(path, rows, schedule.processors, told)


def write_energy_csv(path: Path, schedule: MulticoreSchedule) -> None:
    """Write energy and energy-delay product of every job, node and cluster, and of the whole machine.

    The delay of a job is the time from its submission to its end, that of the others the makespan. Raises
    `BadFileError` if the file cannot be written.
    """
    machine, makespan = schedule.machine, repeat(schedule.makespan_s)
    parts = (
        ("job", schedule.jobs.names, schedule.job_energy_j, schedule.response_s),
        ("node", [node.name for node in machine.nodes()], schedule.node_energy_j, makespan),
        ("cluster", [cluster.name for cluster in machine.clusters], schedule.cluster_energy_j, makespan),
        ("machine", [machine.name], [schedule.energy_j], makespan),
    )
    rows = (
        (part, name, f"{energy:.6f}", f"{energy * delay:.6f}")
        for part, names, energies, delays in parts
        for name, energy, delay in zip(names, energies, delays, strict=False)
    )
    write_text(path, csv_text(ENERGY_COLUMNS, rows))


def _rows(path: Path, schedule: Schedule) -> Iterator[tuple[Row, Number, Number, Number]]:
    """Yield each job with its start, end and wait; raise `BadFileError` for one that could not be read again."""
    jobs = rows_of(path, replace(schedule.workload, run=schedule.run_s))
    waits = schedule.start - schedule.workload.submit
    return zip(jobs, plain(schedule.start), plain(schedule.end), plain(waits), strict=True)
