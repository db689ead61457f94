"""Section and page of `allocopt what-if`: a site's trace on its machine under other allocators and schedulers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from allocopt.report.combination import baseline
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.figures.bars import Measure, bars_figure
from allocopt.report.html.figures.gantt import gantt_figure
from allocopt.report.html.figures.tree import IDLE, TreePicture
from allocopt.report.html.page import write_report
from allocopt.report.html.sections.schedules import schedule_figures
from allocopt.report.html.timeline import Timeline
from allocopt.report.plot import Figure
from allocopt.report.what_if import WhatIfRow, verdict, what_is_assumed
from allocopt.report.what_if_groups import MOST_SHOWN, GroupRow, groups_of
from allocopt.report.words import EN_DASH, Cell, duration, number, percent
from allocopt.simulator.recorded import RECORDED
from allocopt.simulator.schedule import Schedule


class WhatIfPage:
    """A page that collects combinations one by one, and is written when all are complete."""

    def __init__(self, path: Path, title: str) -> None:
        self._path, self._title = path, title
        self._combinations: list[tuple[WhatIfRow, Timeline]] = []
        self._groups: list[GroupRow] = []

    def add(
        self, row: WhatIfRow, schedule: Schedule, node_names: tuple[str, ...], groups: Sequence[GroupRow] = ()
    ) -> None:
        """Add a combination: its row, its schedule, the names of the nodes, and its rows of groups of jobs."""
        self._combinations.append((row, Timeline.of(schedule, node_names)))
        self._groups += groups

    def write(self, made_by: Sequence[str]) -> None:
        """Write the page; ``made_by`` are sentences on the run."""
        section = what_if_section("", self._combinations, self._groups)
        section = replace(section, made_by=(*section.made_by, *made_by))
        write_report(self._path, f"What if: {self._title}", [section])


def what_if_section(
    source: str, combinations: Sequence[tuple[WhatIfRow, Timeline | None]], groups: Sequence[GroupRow] = ()
) -> Section:
    """Return the section of combinations, with their schedules if known, compared with the first, and by groups."""
    rows = [row for row, _ in combinations]
    measures = [
        Measure("Mean hop cost", tuple(row.mean_hop_cost for row in rows), number),
        Measure("Mean wait", tuple(row.mean_wait_s for row in rows), "{:,.0f} s".format),
        Measure("Mean bounded slowdown", tuple(row.mean_bounded_slowdown for row in rows), "{:,.2f}".format),
    ]
    for level in range(max(len(row.fragmentation) for row in rows)):
        where = "leaves" if level == 0 else f"groups of level {level + 1}"
        values = tuple(row.fragmentation[level] if row.fragmentation else None for row in rows)
        measures.append(Measure(f"Fragmentation over {where}", values, "{:.3f}".format))
    bars = bars_figure("Combinations side by side", [row.name for row in rows], measures)
    columns = (
        Column("allocator"), Column("scheduler"), Column("mean wait s", 0), Column("± %", 1), Column("slowdown", 2),
        Column("± %", 1), Column("hop cost", 0), Column("± %", 1), Column("fragmentation", 3),
        Column("utilization %", 1), Column("makespan s", 0),
    )  # fmt: skip
    cells = []
    for row in rows:
        wait, slowdown, cost = row.changes_percent
        cells.append((
            row.allocator, row.scheduler, row.mean_wait_s, wait, row.mean_bounded_slowdown, slowdown,
            row.mean_hop_cost, cost, row.leaf_fragmentation, 100 * row.utilization, row.makespan_s,
        ))  # fmt: skip
    note = (
        "± % is the change relative to the baseline. Slowdown is the mean bounded slowdown, hop cost (1,000 per hop) "
        "the mean over jobs of several nodes, fragmentation that of the idle nodes over leaves."
    )
    parts: list[Figure | Table] = [Table("Combinations", columns, tuple(cells), note=note), *group_parts(groups), bars]
    if known := [(row, line) for row, line in combinations if line is not None]:
        named: dict[str, Timeline] = {}
        for members, line in Timeline.distinct(known):
            names = []
            # If all allocators of a scheduler have this schedule, write "any".
            for scheduler in dict.fromkeys(row.scheduler for row in members):
                own = [row.allocator for row in members if row.scheduler == scheduler]
                all_of_it = sum(row.scheduler == scheduler for row in rows)
                allocators = "any" if len(own) == all_of_it > 1 else ", ".join(own)
                names.append(RECORDED if own == [RECORDED] else f"{allocators} under {scheduler}")
            named["; ".join(names)] = line
        parts += [*schedule_figures(named), *_pictures([each for each in known if not each[0].is_recorded])]
    first = baseline(rows)
    facts = (
        ("jobs", f"{first.jobs:,}"),
        ("combinations", str(len(rows))),
        ("baseline", first.name),
        ("utilization of the baseline", percent(first.utilization)),
        ("mean wait of the baseline", f"{first.mean_wait_s:,.0f} s"),
    )
    sentences = tuple(map(_sentence, verdict(rows)))
    return Section("What if", source, facts, sentences, tuple(parts), tuple(what_is_assumed(rows)))


def groups_section(source: str, rows: Sequence[GroupRow]) -> Section:
    """Return the section of a file that holds only combinations by groups of jobs."""
    return Section("What-if by groups of jobs", source, parts=tuple(group_parts(rows)))


def group_parts(rows: Sequence[GroupRow]) -> Iterator[Table]:
    """Yield a table for each grouping, with a line per group and combination, and the verdicts as its note."""
    for grouping, own in groupby(groups_of(rows), key=lambda group: group.grouping):
        groups = list(own)
        columns = (
            Column(grouping.title), Column("allocator"), Column("scheduler"), Column("jobs", 0),
            Column("mean wait s", 0), Column("± %", 1), Column("95 % interval"), Column("slowdown", 2),
            Column("± %", 1), Column("hop cost", 0), Column("± %", 1), Column("95 % interval"),
        )  # fmt: skip
        cells: list[tuple[Cell, ...]] = []
        for row in (row for group in groups for row in group.rows):
            wait, slowdown, cost = row.changes_percent
            cells.append((
                row.group, row.allocator, row.scheduler, row.jobs, row.mean_wait_s, wait,
                _interval(row.mean_wait_interval), row.mean_bounded_slowdown, slowdown, row.mean_hop_cost, cost,
                _interval(row.mean_hop_cost_interval),
            ))  # fmt: skip
        said = [_sentence(f"{group.title}; {'; '.join(group.verdict())}") for group in groups[:MOST_SHOWN]]
        yield Table(f"By {grouping.title}", columns, tuple(cells), note=" ".join(said))


def _interval(ends: Sequence[float]) -> str:
    return " to ".join(f"{100 * end:+.1f}" for end in ends) or EN_DASH


def _sentence(line: str) -> str:
    """Return a line of a verdict as a sentence of a page."""
    signed = re.sub(r"(?<=[(\[ ])-(?=\d)", "\N{MINUS SIGN}", line.replace("+/-", "±"))
    return f"{signed[:1].upper()}{signed[1:]}."


def _pictures(known: Sequence[tuple[WhatIfRow, Timeline]]) -> Iterator[Figure]:
    """Yield figures of the first combination, the one with the lowest hop cost and the one with the shortest wait."""

    def cost(each: tuple[WhatIfRow, Timeline]) -> float:
        row, _ = each
        return row.mean_wait_s if row.mean_hop_cost is None else row.mean_hop_cost

    nearest = min(known, key=cost)
    soonest = min(known, key=lambda each: (each[0].mean_wait_s, cost(each)))
    roles = {row.name: role for role, (row, _) in (("soonest", soonest), ("nearest", nearest), ("first", known[0]))}
    for row, line in known:
        if (role := roles.get(row.name)) is None:
            continue
        yield gantt_figure(line, f"gantt-{role}", f"Nodes over time: {row.name}")
        if line.topology is None or line.nodes is None:
            continue
        instant = line.busiest()
        running = line.running(instant).tolist()
        owner = np.full(line.rows, IDLE, dtype=np.int64)
        for place, job in enumerate(running):
            owner[line.nodes[job]] = place
        when = duration(instant - float(line.submit.min()))
        title = f"The tree at the busiest moment, {when} after the first submission: {row.name}"
        names = [line.names[job] for job in running]
        yield TreePicture(line.topology, owner, names, f"tree-{role}", title, line.node_names).figure()
