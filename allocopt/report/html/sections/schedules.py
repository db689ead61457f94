"""Schedules: when every job ran, what it waited, and how the machine was used."""

from collections.abc import Mapping, Sequence

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.cluster.topology import Topology
from allocopt.files.faults import bad_file, shown
from allocopt.report.html.document import Column, Fact, Figure, Section, Table
from allocopt.report.html.figures.distributions import Distributions
from allocopt.report.html.figures.gantt import Gantt
from allocopt.report.html.figures.usage import Usage
from allocopt.report.html.results import ResultFile
from allocopt.report.html.timeline import Timeline
from allocopt.report.html.words import EN_DASH, duration, number, percent, slug
from allocopt.report.table import Cell
from allocopt.simulator.metrics import JobStatistics, MeasuredJobs

MOST_GANTTS = 4
MOST_PROCESSORS = 10**12


def timeline_of(file: ResultFile, topology: Topology | None = None) -> Timeline:
    """Make a timeline of a schedule file.

    Parameters
    ----------
    file
        The file.
    topology
        The cluster that it is about, for its size; else the machine is as large as what jobs held at once.

    Raises
    ------
    BadFileError
        If a number is wrong; it names line and column.
    """
    submit, start, end, processors = (numbers_of(file, name) for name in ("submit", "start", "end", "processors"))
    for before, after, first, second in (("submit", "start", submit, start), ("start", "end", start, end)):
        for row in np.flatnonzero(second < first - 1e-6 * np.maximum(np.abs(first), 1.0)).tolist():
            record = file.records[row]
            fault = f"{after} is {shown(record.values[after])}, before {before}, {shown(record.values[before])}"
            raise bad_file(file.path, record.place, fault)
    for row in np.flatnonzero((processors < 1) | (processors > MOST_PROCESSORS) | (processors % 1 != 0)).tolist():
        record = file.records[row]
        value = shown(record.values["processors"])
        raise bad_file(
            file.path, record.place, f"processors is {value}, must be a whole number from 1 to {MOST_PROCESSORS}"
        )
    whole = processors.astype(np.int64)
    names = [record.values["job_id"] for record in file.records]
    line = Timeline(names, submit, start, end, whole, 1)
    size = most_held(line)
    if topology is not None and topology.size >= size:
        size = topology.size
    return Timeline(names, submit, start, end, whole, size)


def most_held(line: Timeline) -> int:
    """Return the most processors that are held at once."""
    running = line.running(line.busiest())
    return max(int(line.processors[running].sum()), int(line.processors.max()), 1)


def schedules_section(lines: Mapping[str, Timeline], source: str = "") -> Section:
    """Show schedules, compared where there are several."""
    distinct = without_equals(lines)
    parts: list[Figure | Table] = []
    if len(lines) > 1:
        parts.append(_comparison(lines))
    parts += [distributions(distinct), Usage(distinct).figure()]
    for index, (name, line) in enumerate(list(distinct.items())[:MOST_GANTTS]):
        title = "Jobs over time" if len(distinct) == 1 else f"Jobs over time: {name}"
        parts.append(Gantt(line, f"gantt-{slug(name)}-{index + 1}" if len(distinct) > 1 else "gantt", title).figure())
    if len(lines) == 1:
        parts.append(by_size(next(iter(lines.values()))))
    title = "Schedules" if len(lines) > 1 else "Schedule"
    facts = _facts(next(iter(lines.values()))) if len(lines) == 1 else ()
    return Section(title, source, facts, parts=tuple(parts))


def distributions(lines: Mapping[str, Timeline]) -> Figure:
    """Return the figure of waits and slowdowns."""
    waits = {name: line.waits_s for name, line in lines.items()}
    return Distributions(waits, {name: line.slowdowns for name, line in lines.items()}).figure()


def without_equals(lines: Mapping[str, Timeline]) -> dict[str, Timeline]:
    """Bring schedules in which all jobs run at the same times under one name."""
    groups: list[tuple[list[str], Timeline]] = []
    for name, line in lines.items():
        same = next((names for names, other in groups if line.is_same(other)), None)
        if same is None:
            groups.append(([name], line))
        else:
            same.append(name)
    return {", ".join(names): line for names, line in groups}


def by_size(line: Timeline) -> Table:
    """Return a line per class of size: waits and slowdowns."""
    nobody = np.zeros(len(line.start), dtype=np.bool_)
    measured = MeasuredJobs(line.processors, line.times(), nobody, None)
    every = slice(None)
    rows = [
        (str(each.most) if each.fewest == each.most else f"{each.fewest}{EN_DASH}{each.most}", *_cells(each.statistics))
        for each in measured.by_size(every)
    ]
    columns = (
        Column("processors"), Column("jobs", 0), Column("mean wait s", 0), Column("median wait s", 0),
        Column("95 % wait s", 0), Column("max wait s", 0), Column("mean bounded slowdown", 2),
    )  # fmt: skip
    return Table("Jobs by size", columns, (*rows, ("all", *_cells(measured.statistics(every)))))


def _cells(jobs: JobStatistics) -> tuple[Cell, ...]:
    """Return the cells of some jobs."""
    wait = jobs.wait_s
    return jobs.jobs, wait.mean, wait.median, wait.percentile_95, wait.maximum, jobs.bounded_slowdown.mean


def _comparison(lines: Mapping[str, Timeline]) -> Table:
    """Return a line per schedule."""
    rows = tuple(
        (
            name, len(line.start), float(line.waits_s.mean()), float(np.median(line.waits_s)),
            float(line.waits_s.max()), float(line.slowdowns.mean()), 100 * line.utilization, line.makespan_s,
        )
        for name, line in lines.items()
    )  # fmt: skip
    columns = (
        Column("schedule"), Column("jobs", 0), Column("mean wait s", 0), Column("median wait s", 0),
        Column("max wait s", 0), Column("mean bounded slowdown", 2), Column("utilization %", 1),
        Column("makespan s", 0),
    )  # fmt: skip
    return Table("Comparison", columns, rows)


def _facts(line: Timeline) -> tuple[Fact, ...]:
    """Return the numbers of a schedule."""
    return (
        Fact("jobs", f"{len(line.start):,}"),
        Fact("mean wait", duration(float(line.waits_s.mean()))),
        Fact("longest wait", duration(float(line.waits_s.max()))),
        Fact("mean bounded slowdown", number(float(line.slowdowns.mean()))),
        Fact(f"of {line.size:,} processors in use", percent(line.utilization)),
        Fact("from first to last", duration(line.makespan_s)),
    )


def numbers_of(file: ResultFile, name: str) -> FloatArray:
    """Read a column of finite numbers."""
    values = np.empty(len(file.records))
    for row, record in enumerate(file.records):
        try:
            values[row] = float(record.values[name])
        except (ValueError, TypeError):
            values[row] = np.nan
        if not np.isfinite(values[row]):
            raise bad_file(file.path, record.place, f"{name} is {shown(record.values[name])}, must be a number")
    return values


def labels_of(files: Sequence[ResultFile]) -> list[str]:
    """Name files by what tells them apart: their stems, or with the folders before them."""
    stems = [_stem(file) for file in files]
    if len(set(stems)) == len(stems):
        return stems
    for depth in range(2, 7):
        folders = ["/".join(file.path.resolve().parts[-depth:-1]) for file in files]
        names = folders if len(set(stems)) == 1 else [f"{a}/{b}" for a, b in zip(folders, stems, strict=True)]
        if len(set(names)) == len(names):
            return names
    return [str(file.path) for file in files]


def _stem(file: ResultFile) -> str:
    """Return the name of a file without its endings."""
    return file.path.name.removesuffix(".gz").rpartition(".")[0] or file.path.name
