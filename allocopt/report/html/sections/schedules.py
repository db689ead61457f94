"""Schedules: when every job ran, how long it waited, and how the machine was used."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from types import MappingProxyType

import numpy as np

from allocopt.cluster.named import NamedTree
from allocopt.files.faults import bad_file, shown
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.figures.gantt import gantt_figure, node_gantt_figure
from allocopt.report.html.results import ResultFile
from allocopt.report.html.timeline import Timeline
from allocopt.report.plot import Axis, Colours, Figure, Panel, evenly
from allocopt.report.simulations import SimulatedJobs, samples_of_blocks, single_verdict
from allocopt.report.what_if_groups import FEWEST_JOBS, MOST_SHOWN
from allocopt.report.words import EN_DASH, Cell, duration, number, percent, shortened, time_unit, typographic
from allocopt.simulator.multicore.simulation import DURATION

_MOST_GANTTS = 4
_MOST_PROCESSORS = 10**12
_BINS, _MOST_POINTS = 160, 300
_GROUPED = {"partition": "partition", "gpu_type": "GPU type", "user": "user", "account": "account"}
_MOST_GROUPS = 50  # of a schedule


def schedules_section(files: Sequence[ResultFile], cluster: NamedTree | None = None) -> Section:
    """Return the section of one or several schedules.

    Without a cluster, the size of the machine is the largest number of processors that jobs held at once.
    """
    lines: dict[str, Timeline] = {}
    for label, file in zip(ResultFile.labels(files), files, strict=True):
        submit, start, end, processors = (file.numbers(name) for name in ("submit", "start", "end", "processors"))
        for before, after, first, second in (("submit", "start", submit, start), ("start", "end", start, end)):
            for row in np.flatnonzero(second < first - 1e-6 * np.maximum(np.abs(first), 1.0)).tolist():
                place, held = file.records[row]
                fault = f"{after} is {shown(held[after])}, before {before}, {shown(held[before])}"
                raise bad_file(file.path, place, fault)
        for row in np.flatnonzero((processors < 1) | (processors > _MOST_PROCESSORS) | (processors % 1 != 0)).tolist():
            place, held = file.records[row]
            right = f"must be a whole number from 1 to {_MOST_PROCESSORS}"
            raise bad_file(file.path, place, f"processors is {shown(held['processors'])}, {right}")
        whole = processors.astype(np.int64)
        line = Timeline([record.values["job_id"] for record in file.records], submit, start, end, whole, 1)
        size = max(int(whole[line.running(line.busiest())].sum()), int(whole.max()), 1)
        if cluster is not None and cluster.tree.size >= size:
            size = cluster.tree.size
        lines[label] = replace(line, size=size)
    by_label = dict(zip(lines, files, strict=True))
    groups = tuple(_group_tables(by_label, lines))
    return _timelines_section(lines, ", ".join(file.path.name for file in files), groups, _labels_of_jobs(by_label))


def _labels_of_jobs(files: Mapping[str, ResultFile]) -> dict[str, dict[str, str]]:
    """Return the group of each job by its id, for every grouping by title."""
    found = {}
    for name, title in _GROUPED.items():
        found[title] = {
            str(record.values["job_id"]): shortened(str(label))
            for file in files.values()
            for record in file.records
            if (label := record.values.get(name))
        }
    return found


def _verdict(lines: Mapping[str, Timeline], groups: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return the verdict on several schedules; ``groups`` has the group of each job by its id, for every grouping."""
    orders = {name: np.argsort(np.array(line.names)) for name, line in lines.items()}
    first, *_ = lines
    names = np.array(lines[first].names)[orders[first]]
    submit = lines[first].submit[orders[first]]
    for name, line in lines.items():
        own = np.array(line.names)[orders[name]]
        if not np.array_equal(own, names) or not np.array_equal(line.submit[orders[name]], submit):
            return ("There is no verdict, because the schedules do not have the same jobs.",)
    times = {name: line.measured.times for name, line in lines.items()}
    waits = {name: each.wait_s[orders[name]] for name, each in times.items()}
    slowdowns = {name: each.bounded_slowdown[orders[name]] for name, each in times.items()}
    of_groups = {}
    for title, labels in groups.items():
        held = np.array([labels.get(job, "") for job in names.tolist()], dtype=np.object_)
        for label, count in Counter(held.tolist()).most_common(MOST_SHOWN):
            if label and FEWEST_JOBS <= count < len(held):
                which = np.asarray(held == label)
                own_waits = {name: samples_of_blocks(submit[which], each[which]) for name, each in waits.items()}
                of_groups[f"{title} {label}"] = own_waits
    found = SimulatedJobs(
        {name: samples_of_blocks(submit, each) for name, each in waits.items()},
        {name: samples_of_blocks(submit, each) for name, each in slowdowns.items()},
        "schedules",
        of_groups,
        "days of submissions",
    )
    return tuple(map(typographic, found.verdict()))


def _group_tables(files: Mapping[str, ResultFile], lines: Mapping[str, Timeline]) -> Iterator[Table]:
    """Yield a table for each column that divides the jobs into several groups, with a line per group and schedule."""
    for name, title in _GROUPED.items():
        cells: list[tuple[Cell, ...]] = []
        for label, file in files.items():
            values = [str(record.values.get(name) or EN_DASH) for record in file.records]
            held, measured = np.array(values, dtype=np.object_), lines[label].measured
            costs = np.array([_number_or_nan(record.values.get("hop_cost")) for record in file.records])
            measured = replace(measured, hop_costs=costs)
            counts = Counter(values)
            if len(counts) < 2:
                continue
            for group, _ in counts.most_common(_MOST_GROUPS):
                jobs = measured.statistics(np.asarray(held == group))
                means = jobs.wait_s.mean, jobs.wait_s.maximum, jobs.bounded_slowdown.mean, jobs.mean_hop_cost
                cells.append((group, label, jobs.jobs, *means))
        columns = (
            Column(title), Column("schedule"), Column("jobs", 0), Column("mean wait s", 0), Column("max wait s", 0),
            Column("mean bounded slowdown", 2), Column("mean hop cost", 0),
        )  # fmt: skip
        if cells:
            yield Table(f"Jobs by {title}", columns, tuple(cells))


def _number_or_nan(cell: object) -> float:
    try:
        return float(str(cell or "nan"))
    except ValueError:
        return float("nan")


def _timelines_section(
    lines: Mapping[str, Timeline],
    source: str = "",
    groups: tuple[Table, ...] = (),
    labels: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Section:
    """Return the section of schedules by name, with tables of groups of jobs."""
    # Equal schedules are drawn once, with all their names.
    distinct = {", ".join(names): line for names, line in Timeline.distinct(lines.items())}
    figures = schedule_figures(distinct)
    for index, (name, line) in enumerate(list(distinct.items())[:_MOST_GANTTS]):
        title = "Jobs over time" if len(distinct) == 1 else f"Jobs over time: {name}"
        figures.append(gantt_figure(line, f"gantt-{name}-{index + 1}" if len(distinct) > 1 else "gantt", title))
    wholes = [line.measured.statistics(slice(None)) for line in lines.values()]
    if len(lines) > 1:
        rows = tuple(
            (
                name, jobs.jobs, jobs.wait_s.mean, jobs.wait_s.median, jobs.wait_s.maximum, jobs.bounded_slowdown.mean,
                100 * line.utilization, line.makespan_s,
            )
            for (name, line), jobs in zip(lines.items(), wholes, strict=True)
        )  # fmt: skip
        columns = (
            Column("schedule"), Column("jobs", 0), Column("mean wait s", 0), Column("median wait s", 0),
            Column("max wait s", 0), Column("mean bounded slowdown", 2), Column("utilization %", 1),
            Column("makespan s", 0),
        )  # fmt: skip
        table = Table("Comparison", columns, rows)
        notes = (
            "Changes in the verdict are relative to the first schedule. Their intervals treat days of submissions, or "
            "weeks from four weeks on, as independent samples.",
        )
        verdict = _verdict(lines, labels)
        return Section("Schedules", verdict, parts=(table, *groups, *figures), notes=notes, source=source)
    (line,), (whole,) = lines.values(), wholes
    facts = (
        ("median wait", duration(whole.wait_s.median)),
        ("mean bounded slowdown", number(whole.bounded_slowdown.mean)),
        ("processors", f"{line.size:,}"),
        ("first submission to last end", duration(line.makespan_s)),
    )
    only = single_verdict(whole.jobs, whole.wait_s.mean, whole.wait_s.maximum, line.utilization)
    held = {
        str(each.most) if each.fewest == each.most else f"{each.fewest}{EN_DASH}{each.most}": each.statistics
        for each in line.measured.by_size(slice(None))
    }
    sizes = tuple(
        (size, jobs.jobs, *astuple(jobs.wait_s), jobs.bounded_slowdown.mean)
        for size, jobs in {**held, "all": whole}.items()
    )
    of_sizes = (
        Column("processors"), Column("jobs", 0), Column("mean wait s", 0), Column("median wait s", 0),
        Column("95 % wait s", 0), Column("max wait s", 0), Column("mean bounded slowdown", 2),
    )  # fmt: skip
    table = Table("Jobs by size", of_sizes, sizes)
    return Section("Schedule", (only,), facts, (table, *groups, *figures), source=source)


def placed_section(file: ResultFile, cluster: NamedTree | None = None) -> Section:
    """Return the section of jobs that were placed on nodes."""
    if DURATION not in file.records[0].values:
        raise bad_file(file.path, "line 1", f"has no column {DURATION}, which is needed to draw jobs")
    start, run = file.numbers("start_s"), file.numbers(DURATION)
    for row in np.flatnonzero(run < 0).tolist():
        raise bad_file(file.path, file.records[row].place, f"{DURATION} must not be negative")
    named = [str(record.values["node"]) for record in file.records]
    # In the order of the cluster; nodes that it does not have come after them, by name, n2 before n10.
    known = {} if cluster is None else {name: number for number, name in enumerate(cluster.nodes)}

    def rank(name: str) -> tuple[int, list[tuple[int, int, str]]]:
        parts = re.split(r"(\d+)", name)
        natural = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
        return known.get(name, len(known)), natural

    order = sorted(set(named), key=rank)
    places = {name: place for place, name in enumerate(order)}
    node = np.array([places[name] for name in named], dtype=np.int64)
    jobs = [str(record.values["job_id"]) for record in file.records]
    end = start + run
    rows = tuple(
        (name, int((node == place).sum()), float(run[node == place].sum()), float(end[node == place].max()))
        for place, name in enumerate(order)
    )
    table = Table("Nodes", (Column("node"), Column("jobs", 0), Column("job seconds", 0), Column("last end s", 0)), rows)
    facts = (
        ("first start to last end", duration(float(end.max() - start.min()))),
        ("mean run", duration(float(run.mean()))),
    )
    verdict = f"{len(jobs):,} jobs ran on {len(order):,} nodes."
    figure = node_gantt_figure(jobs, node, start, end, order)
    return Section("Placed jobs", (verdict,), facts, (table, figure), source=file.path.name)


def schedule_figures(lines: Mapping[str, Timeline]) -> list[Figure]:
    """Return the figures of waits and slowdowns, and of utilization, with a line per schedule."""
    return [_distributions_figure(lines), _usage_figure(lines)]


def _distributions_figure(lines: Mapping[str, Timeline]) -> Figure:
    said = []
    for name, line in lines.items():
        half, at_once = duration(float(np.median(line.waits_s))), percent(float((line.waits_s <= 0).mean()), 0)
        said.append(f"{name}: half of the jobs wait at most {half}, {at_once} not at all")

    def draw(colours: Colours) -> Iterator[Panel]:
        times = [line.measured.times for line in lines.values()]
        waits, slowdowns = [each.wait_s for each in times], [each.bounded_slowdown for each in times]
        longest, worst = (max(float(values.max()) for values in held) for held in (waits, slowdowns))
        for title, x, held in (
            ("Share of the jobs by wait", Axis.durations(longest), waits),
            ("Share of the jobs by bounded slowdown", Axis.log(1.0, max(worst * 1.1, 10.0)), slowdowns),
        ):
            panel = Panel(colours, x, Axis.shares(), 190, title)
            for index, (name, values) in enumerate(zip(lines, held, strict=True)):
                # A logarithmic axis has no 0, but many jobs do not wait.
                ordered = np.sort(np.maximum(values, 1.0))
                known = np.append(1.0, ordered[evenly(len(ordered), _MOST_POINTS)])
                share = 100 * np.searchsorted(ordered, known, "right") / len(ordered)
                panel.line(index, known, share, name, is_step=True)
            yield panel

    return Figure(
        "distributions",
        "Waits and slowdowns",
        f"Cumulative shares of jobs by wait and by bounded slowdown. {'. '.join(said)}.",
        draw,
        "Share of the jobs whose wait, or slowdown, is at most the value below. Higher is better. A line begins at the "
        "share of jobs that do not wait. Waits under a second are drawn as one second.",
        tuple(lines),
    )


def _usage_figure(lines: Mapping[str, Timeline]) -> Figure:
    said = [f"{name} {percent(line.utilization)}" for name, line in lines.items()]

    def draw(colours: Colours) -> list[Panel]:
        edges = Timeline.shared_bins(list(lines.values()), _BINS)
        seconds, unit = time_unit(edges[-1] - edges[0])
        middles = ((edges[:-1] + edges[1:]) / 2 - edges[0]) / seconds
        whole = np.array([0.0, (edges[-1] - edges[0]) / seconds])
        x = Axis.linear(whole, f"{unit} since the first submission", unit, is_tight=True)
        waiting = {name: line.waiting(edges) for name, line in lines.items()}
        longest = max(float(values.max()) for values in waiting.values())
        shares = {name: 100 * line.held(edges) / line.size for name, line in lines.items()}
        most = max(float(values.max()) for values in shares.values())
        in_use = Axis.shares()
        # A record may be from a larger machine than the simulated one.
        if most > in_use.domain[1]:
            in_use = Axis.linear(np.array([0.0, most]), unit="%")
        used = Panel(colours, x, in_use, 190, "Machine in use, %")
        queue = Panel(colours, x, Axis.linear(np.array([0.0, max(longest, 1.0)]), unit="jobs"), 190, "Jobs waiting")
        for index, (name, share) in enumerate(shares.items()):
            if len(lines) == 1:
                used.area("s2", middles, share)
            used.line(index, middles, share, name)
            queue.line(index, middles, waiting[name], name)
        return [used, queue]

    return Figure(
        "utilization",
        "Utilization over time",
        f"Share of the machine in use over time, and number of waiting jobs. Means: {', '.join(said)}.",
        draw,
        "Means over equal intervals, from the first submission to the last end.",
        tuple(lines),
    )
