"""A site's trace on its topology under other allocators and schedulers: the verdict first."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.report.html.document import Column, Fact, Figure, Section, Table
from allocopt.report.html.figures.bars import Measure
from allocopt.report.html.figures.gantt import Gantt
from allocopt.report.html.figures.tree import IDLE, TreePicture
from allocopt.report.html.figures.usage import Usage
from allocopt.report.html.sections.schedules import distributions
from allocopt.report.html.sections.tables import bars_figure
from allocopt.report.html.timeline import Timeline
from allocopt.report.html.words import duration, number, percent
from allocopt.report.table import Cell
from allocopt.report.what_if import WhatIfRow, verdict


@dataclass(frozen=True, slots=True)
class Combination:
    """What one combination gave: its row, and its schedule where that is known."""

    row: WhatIfRow
    timeline: Timeline | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.row.allocator}, {self.row.scheduler}"


def what_if_section(source: str, combinations: Sequence[Combination]) -> Section:
    """Show combinations beside the first."""
    rows = [each.row for each in combinations]
    lines = {each.name: each.timeline for each in combinations if each.timeline is not None}
    parts: list[Figure | Table] = [_table(combinations)]
    parts.append(_bars(combinations))
    if lines:
        distinct = _distinct(combinations)
        parts += [distributions(distinct), Usage(distinct).figure()]
        for role, each in _shown(combinations):
            assert each.timeline is not None, "those that are shown have schedules"
            parts += _of_one(role, each.name, each.timeline)
    first = rows[0]
    facts = (
        Fact("jobs", f"{first.jobs:,}"),
        Fact("combinations", str(len(rows))),
        Fact("baseline", combinations[0].name),
        Fact("its utilization", percent(first.utilization)),
        Fact("its mean wait", duration(first.mean_wait_s)),
    )
    return Section("What if", source, facts, tuple(_sentences(rows)), tuple(parts))


def _sentences(rows: Sequence[WhatIfRow]) -> list[str]:
    """Return the verdict with the comparison last, as it explains the rest."""
    compared, *best = (_typeset(line) for line in verdict(rows))
    return [*(f"{line[:1].upper()}{line[1:]}." for line in best), f"{compared}."]


def _typeset(line: str) -> str:
    """Write signs as the tables of a page do."""
    return line.replace("+/-", "±").replace("(-", "(\N{MINUS SIGN}")


def _table(combinations: Sequence[Combination]) -> Table:
    """Return a line per combination."""
    rows = tuple(_cells(each) for each in combinations)
    columns = (
        Column("allocator"), Column("scheduler"), Column("mean wait s", 0), Column("± %", 1), Column("slowdown", 2),
        Column("± %", 1), Column("hop cost", 0), Column("± %", 1), Column("fragmentation", 3),
        Column("utilization %", 1), Column("makespan s", 0),
    )  # fmt: skip
    note = "± % beside the first line. Slowdown is the mean bounded slowdown, hop cost the mean over jobs of several "
    return Table("Combinations", columns, rows, note=f"{note}nodes, fragmentation that of the idle nodes over leaves.")


def _cells(each: Combination) -> tuple[Cell, ...]:
    """Return the cells of a combination."""
    row = each.row
    changes = (row.mean_wait_change, row.mean_bounded_slowdown_change, row.mean_hop_cost_change)
    wait, slowdown, cost = (None if change is None else 100 * change for change in changes)
    return (
        row.allocator, row.scheduler, row.mean_wait_s, wait, row.mean_bounded_slowdown, slowdown,
        row.mean_hop_cost, cost, row.fragmentation[0] if row.fragmentation else None, 100 * row.utilization,
        row.makespan_s,
    )  # fmt: skip


def _bars(combinations: Sequence[Combination]) -> Figure:
    """Return the figure of bars."""
    rows = [each.row for each in combinations]
    measures = [
        Measure("Mean hop cost", tuple(row.mean_hop_cost for row in rows), number),
        Measure("Mean wait", tuple(row.mean_wait_s for row in rows), duration),
        Measure("Mean bounded slowdown", tuple(row.mean_bounded_slowdown for row in rows), number),
    ]
    levels = min(len(row.fragmentation) for row in rows)
    for level in range(levels):
        where = "leaves" if level == 0 else f"groups of level {level + 1}"
        values = tuple(row.fragmentation[level] for row in rows)
        measures.append(Measure(f"Fragmentation over {where}", values, lambda value: f"{value:.3f}"))
    return bars_figure("Combinations side by side", [each.name for each in combinations], measures)


def _shown(combinations: Sequence[Combination]) -> list[tuple[str, Combination]]:
    """Return the first combination, and those with the lowest hop cost and the shortest wait if they are others."""
    known = [each for each in combinations if each.timeline is not None]
    nearest = min(known, key=lambda each: _cost(each.row))
    soonest = min(known, key=lambda each: (each.row.mean_wait_s, _cost(each.row)))
    named = {
        each.name: (role, each) for role, each in (("soonest", soonest), ("nearest", nearest), ("first", known[0]))
    }
    return [named[each.name] for each in combinations if each.name in named]


def _distinct(combinations: Sequence[Combination]) -> dict[str, Timeline]:
    """Bring combinations in which all jobs run at the same times together; those of one scheduler are named by it."""
    groups: list[tuple[list[Combination], Timeline]] = []
    for each in combinations:
        if each.timeline is None:
            continue
        same = next((members for members, line in groups if each.timeline.is_same(line)), None)
        if same is None:
            groups.append(([each], each.timeline))
        else:
            same.append(each)
    return {_group_name(members, combinations): line for members, line in groups}


def _group_name(members: Sequence[Combination], every: Sequence[Combination]) -> str:
    """Name combinations that are the same in time."""
    names = []
    for scheduler in dict.fromkeys(each.row.scheduler for each in members):
        own = [each.row.allocator for each in members if each.row.scheduler == scheduler]
        all_of_it = sum(each.row.scheduler == scheduler for each in every)
        names.append(scheduler if len(own) == all_of_it > 1 else f"{', '.join(own)} under {scheduler}")
    return "; ".join(names)


def _cost(row: WhatIfRow) -> float:
    """Mean hop cost; without one, the mean wait."""
    return row.mean_wait_s if row.mean_hop_cost is None else row.mean_hop_cost


def _of_one(role: str, name: str, line: Timeline) -> list[Figure | Table]:
    """Show the schedule of one combination: nodes over time, and the tree at the busiest moment."""
    parts: list[Figure | Table] = [Gantt(line, f"gantt-{role}", f"Nodes over time: {name}").figure()]
    if line.topology is None or line.nodes is None:
        return parts
    instant = line.busiest()
    running = line.running(instant)
    owner = np.full(line.size, IDLE, dtype=np.int64)
    for place, job in enumerate(running.tolist()):
        owner[line.nodes[job]] = place
    when = duration(instant - float(line.submit.min()))
    picture = TreePicture(
        line.topology,
        owner,
        [line.names[job] for job in running.tolist()],
        f"tree-{role}",
        f"The tree at the busiest moment, {when} after the first submission: {name}",
        line.node_names,
    )
    parts.append(picture.figure())
    return parts
