"""Files of schedules: one job per line, as CSV or in the Standard Workload Format; and files of energies."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.cluster.cluster import CORES, GPUS
from allocopt.files.csv_rows import csv_text
from allocopt.files.writing import write_text
from allocopt.simulator.described import Described
from allocopt.simulator.groups import GROUPINGS, NO_GPUS, UNKNOWN
from allocopt.simulator.multicore.simulation import MulticoreSchedule
from allocopt.simulator.schedule import ClusterSchedule, Schedule
from allocopt.simulator.waiting import waited_for
from allocopt.traces.records import Number, Row, plain, rows_of
from allocopt.traces.text import write_swf
from allocopt.version import __version__

SCHEDULE_COLUMNS = ("job_id", "submit", "start", "end", "processors", "run", "estimate")
"""The first columns of a schedule, on which other tools rely."""
JOB_COLUMNS = (
    *("user", "account", "partition", "nodes", "cores", "gpus", "gpu_type", "node_list", "hop_cost", "wait"),
    *("wait_reason", "recorded_start"),
)
"""The columns after these; cells are empty if nothing is known."""
ENERGY_COLUMNS = ("part", "name", "energy_j", "energy_delay_js")
_COMPLETED = 1
_COST_DIGITS = 3


def write_schedule_csv(path: Path, schedule: Schedule, described: Described | None = None) -> None:
    """Write a row per job, in the order of submission; times are in seconds, whole ones as integers.

    A job has the id of the trace if that is a text. Column ``run`` is the time from start to end, also for a killed
    job. The columns are `SCHEDULE_COLUMNS` and then `JOB_COLUMNS`: user, account, partition, the nodes, cores and GPUs
    that the job held (or requested, if that is not known), the requested type of GPU, the hop cost of its nodes, its
    wait in the queue, what it waited for (`waited_for`), and its start in the trace. Raises `BadFileError` if there are
    no jobs, or the file cannot be written, or could not be read again.
    """
    described = described or Described(schedule.workload)
    names = schedule.workload.names.tolist()
    lines = (
        (name or job.job, job.submit, start, end, job.processors, job.run, job.estimate, *more)
        for name, (job, start, end, _), more in zip(
            names, _rows(path, schedule), _job_cells(schedule, described), strict=True
        )
    )
    write_text(path, csv_text((*SCHEDULE_COLUMNS, *JOB_COLUMNS), lines))


def _job_cells(schedule: Schedule, described: Described) -> Iterator[Sequence[Any]]:
    """Yield the cells of `JOB_COLUMNS` of every job."""
    n = len(schedule.start)
    by = {name: described.labels_of(grouping, schedule) for name, grouping in GROUPINGS.items()}
    users, accounts, partitions, types = (
        ["" if label in (UNKNOWN, NO_GPUS) else label for label in by[name]]
        for name in ("user", "account", "partition", "gpus")
    )
    nodes = schedule.nodes or [np.empty(0, dtype=np.int64)] * n
    costs = schedule.hop_costs()
    recorded = schedule.workload.recorded_start
    columns: tuple[Iterable[Any], ...] = (
        users,
        accounts,
        partitions,
        [len(held) or None for held in nodes],
        *_held(schedule),
        types,
        (described.node_list(held) for held in nodes),
        repeat(None, n) if costs is None else map(_known, np.round(costs, _COST_DIGITS).tolist()),
        plain(schedule.wait_s),
        waited_for(schedule, by["partition"]),
        map(_known, recorded.tolist()),
    )
    return zip(*columns, strict=True)


def _held(schedule: Schedule) -> tuple[list[Number | None], list[Number | None]]:
    """Return the cores and the GPUs of every job: those that it held, or else requested; None if not known."""
    if isinstance(schedule, ClusterSchedule):
        cores, gpus = plain(schedule.held[CORES]), plain(schedule.held[GPUS])
        return [*cores], [*gpus]
    cores_of: list[Number | None] = []
    gpus_of: list[Number | None] = []
    sizes = [0] * len(schedule.start) if schedule.nodes is None else list(map(len, schedule.nodes))
    for asked, size in zip(schedule.workload.requests, sizes, strict=True):
        if asked is None:
            cores_of.append(None)
            gpus_of.append(None)
            continue
        tasks, nodes = asked.tasks or asked.least_nodes, size or asked.least_nodes
        gpus = sum(count for _, count in asked.gpus_per_node) * nodes
        gpus += sum(count for _, count in asked.gpus_per_task) * tasks
        cores_of.append(_known(tasks * asked.cores_per_task) or None)
        gpus_of.append(_known(gpus) or None)
    return cores_of, gpus_of


def _known(value: float) -> Number | None:
    """Return a number, as an integer if it is whole; None for NaN."""
    if np.isnan(value):
        return None
    return int(value) if float(value).is_integer() else value


def write_schedule_swf(path: Path, schedule: Schedule, notes: Sequence[str] = ()) -> None:
    """Write a schedule in the Standard Workload Format; `read_workload` reads its jobs and machine.

    Wait (column 3), run time (4) and status (11, completed) are those of the schedule, processors are written as
    allocated and as requested (5, 8), applications keep their numbers (14), and unknown values are -1. A file whose
    name ends in ``.gz`` is compressed; ``notes`` are added to the header. Raises `BadFileError` if the file cannot be
    written or could not be read again.
    """
    made = f"schedule of {schedule.workload.name} simulated by allocopt {__version__}: wait, run time and status"
    told = (made, "times in seconds, unknown values -1", *notes, *schedule.workload.remarks())
    rows = ((job, wait, _COMPLETED) for job, _, _, wait in _rows(path, schedule))
    write_swf(path, rows, schedule.processors, told)


def write_energy_csv(path: Path, schedule: MulticoreSchedule) -> None:
    """Write energy and energy-delay product of every job, node and cluster, and of the whole machine.

    The delay of a job is the time from its submission to its end; that of the other parts is the makespan. Raises
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
