"""Section and page of `allocopt what-if`: a site's trace on its machine under other allocators and schedulers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from allocopt.report.combination import Combination
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.figures.bars import Measure, bars_figure
from allocopt.report.html.figures.gantt import gantt_figure
from allocopt.report.html.figures.tree import IDLE, TreePicture
from allocopt.report.html.page import write_report
from allocopt.report.html.sections.schedules import schedule_figures
from allocopt.report.html.timeline import Timeline
from allocopt.report.plot import Figure
from allocopt.report.what_if import WhatIfRow, details, verdict, what_is_assumed
from allocopt.report.what_if_groups import MOST_SHOWN, GroupRow, groups_of, groups_verdict
from allocopt.report.words import EN_DASH, Cell, duration, number, shortened, typographic
from allocopt.simulator.groups import UNKNOWN
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
        Column("allocator"), Column("scheduler"), Column("mean wait s", 0), Column("change %", 1),
        Column("95 % interval"), Column("slowdown", 2), Column("change %", 1), Column("hop cost", 0),
        Column("change %", 1), Column("95 % interval"), Column("fragmentation", 3),
        Column("utilization %", 1), Column("makespan s", 0),
    )  # fmt: skip
    cells = []
    for row in rows:
        wait, slowdown, cost = row.changes_percent
        cells.append((
            row.allocator, row.scheduler, row.mean_wait_s, wait, _interval(row, row.mean_wait_interval),
            row.mean_bounded_slowdown, slowdown, row.mean_hop_cost, cost, _interval(row, row.mean_hop_cost_interval),
            row.leaf_fragmentation, 100 * row.utilization, row.makespan_s,
        ))  # fmt: skip
    note = (
        "Each change is relative to the baseline, the first simulated combination. Slowdown is the mean bounded "
        "slowdown. Hop cost is 1,000 per hop, as a mean over jobs of several nodes. Fragmentation is that of the idle "
        "nodes over leaf switches, from 0 (none) to 1."
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
    return Section(
        "What if",
        tuple(map(typographic, verdict(rows, groups))),
        parts=tuple(parts),
        notes=tuple(map(_sentence, details(rows))),
        made_by=tuple(what_is_assumed(rows)),
        source=source,
    )


def groups_section(source: str, rows: Sequence[GroupRow]) -> Section:
    """Return the section of a file that holds only combinations by groups of jobs."""
    verdict_of_groups = tuple(map(typographic, groups_verdict(rows)))
    return Section("Combinations by groups of jobs", verdict_of_groups, parts=tuple(group_parts(rows)), source=source)


def group_parts(rows: Sequence[GroupRow]) -> Iterator[Table]:
    """Yield a table for each grouping, with a remark per group that names its best combinations."""
    for grouping, own in groupby(groups_of(rows), key=lambda group: group.grouping):
        groups = list(own)
        if [group.label for group in groups] == [UNKNOWN]:
            continue
        columns = (
            Column(grouping.title), Column("allocator"), Column("scheduler"), Column("jobs", 0),
            Column("mean wait s", 0), Column("change %", 1), Column("95 % interval"), Column("slowdown", 2),
            Column("change %", 1), Column("hop cost", 0), Column("change %", 1), Column("95 % interval"),
        )  # fmt: skip
        cells: list[tuple[Cell, ...]] = []
        for row in (row for group in groups for row in group.rows):
            wait, slowdown, cost = row.changes_percent
            cells.append((
                row.group, row.allocator, row.scheduler, row.jobs, row.mean_wait_s, wait,
                _interval(row, row.mean_wait_interval), row.mean_bounded_slowdown, slowdown, row.mean_hop_cost, cost,
                _interval(row, row.mean_hop_cost_interval),
            ))  # fmt: skip
        best = {f"{grouping.title} {shortened(group.label)}": group.best() for group in groups[:MOST_SHOWN]}
        if len(best) > 1 and len(set(best.values())) == 1:
            best = {f"every {grouping.title}": groups[0].best()}
        said = tuple(_sentence(f"{name}: {each}") for name, each in best.items())
        left = len(groups) - MOST_SHOWN
        note = f"The lines below leave out {left:,} groups with fewer jobs." if left > 0 else ""
        yield Table(f"By {grouping.title}", columns, tuple(cells), note=note, remarks=said)


def _interval(row: Combination, ends: Sequence[float]) -> str:
    if not any(row.changes_percent):
        return EN_DASH
    # Adding 0 removes the sign of an end that is rounded to zero.
    written = " to ".join(f"{round(100 * end, 1) + 0:+.1f}" for end in ends)
    return written.replace("-", "\N{MINUS SIGN}") or EN_DASH


def _sentence(line: str) -> str:
    """Return a line of a verdict as a sentence of a page."""
    written = typographic(line)
    return f"{written[:1].upper()}{written[1:]}."


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
