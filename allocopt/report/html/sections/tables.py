"""Results that are rows of numbers: simulations, reproductions, energy."""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from allocopt.report.html.document import Column, Section, Table
from allocopt.report.html.figures.bars import Measure, bars_figure
from allocopt.report.html.results import ResultFile, SimulationRecord
from allocopt.report.plot import Axis, Colours, Figure, Panel
from allocopt.report.table import Cell
from allocopt.report.words import duration, number, percent
from allocopt.reproduction import ReproductionRow

# More bars than these are no figure.
_MOST_BARS = 24
# So many rows and columns of a paper's numbers are drawn.
_MOST_ROWS, _MOST_COLUMNS = 40, 6


def simulations_section(source: str, named: Sequence[tuple[str, SimulationRecord]]) -> Section:
    """Show what was measured of simulations, each with the name that its file gives it.

    Simulations of a sweep are named by what was simulated; bars are means over its seeds.
    """
    if not named:
        return Section("Simulations", source)
    rows = [row for _, row in named]
    several_traces = len({row.trace for row in rows}) > 1
    labels = [_label(row, name, several_traces) for name, row in named]
    table = _simulation_table(labels, rows)
    if len(rows) == 1:
        return Section("Simulation", source, _simulation_facts(rows[0]), parts=(table,))
    groups: dict[str, list[SimulationRecord]] = {}
    for label, row in zip(labels, rows, strict=True):
        groups.setdefault(label, []).append(row)
    parts = (bars_figure("Simulations side by side", list(groups), _measures(list(groups.values()))), table)
    return Section("Simulations", source, parts=parts if len(groups) <= _MOST_BARS else (table,))


def _label(row: SimulationRecord, name: str, has_trace: bool) -> str:
    """Name a simulation by what was simulated where a sweep says so, else by its file."""
    if row.policy is None:
        return name
    policy = row.policy if row.backfill in (None, "none") else f"{row.policy}+{row.backfill}"
    return ", ".join(part for part in (row.trace if has_trace else None, policy, row.allocator) if part)


def _simulation_facts(row: SimulationRecord) -> tuple[tuple[str, str], ...]:
    return (
        ("jobs", f"{row.jobs:,}"),
        ("mean wait", duration(row.mean_wait_s)),
        ("longest wait", duration(row.max_wait_s)),
        ("mean bounded slowdown", number(row.mean_bounded_slowdown)),
        ("of the machine in use", percent(row.utilization)),
    )


def _simulation_table(labels: Sequence[str], rows: Sequence[SimulationRecord]) -> Table:
    columns = [
        Column("simulation"), Column("seed", 0), Column("jobs", 0), Column("mean wait s", 1), Column("max wait s", 0),
        Column("mean bounded slowdown", 2), Column("utilization %", 2), Column("makespan s", 0), Column("jobs/s", 0),
    ]  # fmt: skip
    cells: list[tuple[Cell, ...]] = [
        (
            label, row.seed, row.jobs, row.mean_wait_s, row.max_wait_s, row.mean_bounded_slowdown,
            100 * row.utilization, row.makespan_s, row.jobs_per_s,
        )
        for label, row in zip(labels, rows, strict=True)
    ]  # fmt: skip
    if all(row.seed is None for row in rows):
        del columns[1]
        cells = [(each[0], *each[2:]) for each in cells]
    return Table("Simulations", tuple(columns), tuple(cells))


def _measures(groups: Sequence[Sequence[SimulationRecord]]) -> tuple[Measure, ...]:
    def means(value: Callable[[SimulationRecord], float]) -> tuple[float, ...]:
        return tuple(fmean(map(value, group)) for group in groups)

    return (
        Measure("Mean wait", means(lambda row: row.mean_wait_s), duration),
        Measure("Mean bounded slowdown", means(lambda row: row.mean_bounded_slowdown), number),
        Measure("Utilization", means(lambda row: row.utilization), percent, "max"),
        Measure("Longest wait", means(lambda row: row.max_wait_s), duration),
    )


def reproduction_section(source: str, rows: Sequence[ReproductionRow]) -> Section:
    """Show the numbers of a table or figure of a paper beside ours."""
    artifact = rows[0].artifact
    known = [row for row in rows if row.published is not None]
    table = Table(
        "Every number",
        (
            Column("row"), Column("column"), Column("published", 0, is_mixed=True),
            Column("ours", 0, is_mixed=True), Column("standard deviation", 0, is_mixed=True), Column("n", 0),
        ),
        tuple((row.row, row.column, row.published, row.ours, row.spread, row.n) for row in rows),
    )  # fmt: skip
    facts = (("reproduction", artifact), ("numbers", f"{len(rows):,}"), ("published", f"{len(known):,}"))
    figure = _published_figure(rows)
    parts = (table,) if figure is None else (figure, table)
    return Section(f"Reproduction {artifact}", source, facts, parts=parts)


def _published_figure(rows: Sequence[ReproductionRow]) -> Figure | None:
    """Return the figure of numbers measured beside those that a paper prints; None if none was measured."""
    names = list(dict.fromkeys(row.column for row in rows if row.ours is not None))
    known = {row.column for row in rows if row.published is not None}
    # Columns that the paper has too come first, as there is no room for all.
    columns = sorted(names, key=lambda name: name not in known)[:_MOST_COLUMNS]
    if not columns:
        return None
    labels = list(dict.fromkeys(row.row for row in rows))[:_MOST_ROWS]
    said = [
        f"{row.row}, {row.column}: {number(row.ours)} beside {number(row.published)}"
        for row in rows
        if row.ours is not None and row.published is not None
    ]

    def draw(colours: Colours) -> list[Panel]:
        return [
            _published_panel(
                colours, column, labels, [row for row in rows if row.column == column and row.row in labels]
            )
            for column in columns
        ]

    return Figure(
        "published",
        "Ours beside the paper's",
        f"Values measured and published. {'; '.join(said[:15])}.",
        draw,
        "Filled: ours, with a standard deviation to either side where there are several runs. Hollow: the paper's.",
    )


def _published_panel(colours: Colours, title: str, labels: Sequence[str], rows: Sequence[ReproductionRow]) -> Panel:
    ours = [
        (labels.index(row.row) + 0.5, row.ours, abs(row.spread or 0.0), row) for row in rows if row.ours is not None
    ]
    theirs = [(labels.index(row.row) + 0.5, row.published) for row in rows if row.published is not None]
    ends = [value + sign * spread for _, value, spread, _ in ours for sign in (-1, 1)] + [value for _, value in theirs]
    panel = Panel(colours, Axis.linear(np.array(ends)), Axis.names(labels, 26), 24.0 * len(labels), title)
    panel.rules((row + 0.5 for row in range(len(labels))), "grid")
    spans = [(value - spread, place - 0.04, 2 * spread, 0.08) for place, value, spread, _ in ours if spread]
    panel.boxes(np.array(spans).reshape(-1, 4), ["c1"] * len(spans))
    said = [
        f"{row.row}: {number(row.ours or 0.0)}" + (f" ± {number(spread)}" if spread else "") for *_, spread, row in ours
    ]
    panel.points(0, np.array([value for _, value, *_ in ours]), np.array([place for place, *_ in ours]), said, size=4.5)
    places, values = np.array([place for place, _ in theirs]), np.array([value for _, value in theirs])
    published = [f"the paper's: {number(value)}" for _, value in theirs]
    hollow = {"fill": "transparent", "stroke": colours["ink"], "strokeWidth": 1.2}
    panel.points(0, values, places, published, size=6.5, **hollow)
    return panel


def energy_section(file: ResultFile) -> Section:
    """Show the energy of jobs, nodes, clusters and the machine."""
    energies, products = file.numbers("energy_j"), file.numbers("energy_delay_js")
    rows = tuple(
        (record.values["part"], record.values["name"], energy, product)
        for record, energy, product in zip(file.records, energies.tolist(), products.tolist(), strict=True)
    )
    columns = (Column("part"), Column("name"), Column("energy J", 1), Column("energy-delay J s", 1))
    return Section("Energy", file.path.name, parts=(Table("Energy", columns, rows),))
