"""Results that are rows of numbers: simulations, reproductions, energy."""

from collections.abc import Sequence

from allocopt.report.html.canvas import Canvas
from allocopt.report.html.document import Column, Fact, Figure, Section, Table
from allocopt.report.html.figures.bars import Measure, draw_bars
from allocopt.report.html.figures.published import Published, Value
from allocopt.report.html.results import ResultFile
from allocopt.report.html.sections.schedules import numbers_of
from allocopt.report.html.words import duration, number, percent
from allocopt.report.simulate_row import SimulateRow
from allocopt.reproduction import ReproductionRow


def simulations_section(source: str, rows: Sequence[SimulateRow], labels: Sequence[str]) -> Section:
    """Show what was measured of simulations."""
    table = Table(
        "Simulations",
        (
            Column("simulation"), Column("jobs", 0), Column("mean wait s", 1), Column("max wait s", 0),
            Column("mean bounded slowdown", 2), Column("utilization %", 2), Column("makespan s", 0),
            Column("simulated in s", 2), Column("jobs/s", 0),
        ),
        tuple(
            (
                label, row.jobs, row.mean_wait_s, row.max_wait_s, row.mean_bounded_slowdown, 100 * row.utilization,
                row.makespan_s, row.runtime_s, row.jobs_per_s,
            )
            for label, row in zip(labels, rows, strict=True)
        ),
    )  # fmt: skip
    if len(rows) == 1:
        (row,) = rows
        facts = (
            Fact("jobs", f"{row.jobs:,}"),
            Fact("mean wait", duration(row.mean_wait_s)),
            Fact("longest wait", duration(row.max_wait_s)),
            Fact("mean bounded slowdown", number(row.mean_bounded_slowdown)),
            Fact("of the machine in use", percent(row.utilization)),
        )
        return Section("Simulation", source, facts, parts=(table,))
    measures = (
        Measure("Mean wait", tuple(row.mean_wait_s for row in rows), duration),
        Measure("Mean bounded slowdown", tuple(row.mean_bounded_slowdown for row in rows), number),
        Measure("Utilization", tuple(row.utilization for row in rows), percent, "max"),
        Measure("Longest wait", tuple(row.max_wait_s for row in rows), duration),
    )
    return Section("Simulations", source, parts=(bars_figure("Simulations side by side", labels, measures), table))


def bars_figure(title: str, labels: Sequence[str], measures: Sequence[Measure]) -> Figure:
    """Return a figure of bars, a panel per measure."""
    said = [
        f"{measure.title}: "
        + ", ".join(
            f"{label} {measure.shown(value)}"
            for label, value in zip(labels, measure.values, strict=True)
            if value is not None
        )
        for measure in measures
    ]

    def draw(canvas: Canvas) -> None:
        """Draw the panels."""
        draw_bars(canvas, labels, measures)

    return Figure("measures", title, f"{'. '.join(said)}.", draw, "The best of each stands out.")


def reproduction_section(source: str, rows: Sequence[ReproductionRow]) -> Section:
    """Show the numbers of a table or figure of a paper beside ours."""
    artifact = rows[0].artifact
    values = [Value(row.row, row.column, row.published, row.ours, row.spread) for row in rows]
    known = [row for row in rows if row.published is not None]
    table = Table(
        "Every number",
        (
            Column("row"), Column("column"), Column("published", 0, is_mixed=True),
            Column("ours", 0, is_mixed=True), Column("standard deviation", 0, is_mixed=True), Column("n", 0),
        ),
        tuple((row.row, row.column, row.published, row.ours, row.spread, row.n) for row in rows),
    )  # fmt: skip
    facts = (Fact("reproduction", artifact), Fact("numbers", f"{len(rows):,}"), Fact("published", f"{len(known):,}"))
    published = Published(artifact, values)
    parts = (published.figure(), table) if published.columns else (table,)
    return Section(f"Reproduction {artifact}", source, facts, parts=parts)


def energy_section(file: ResultFile) -> Section:
    """Show the energy of jobs, nodes, clusters and the machine."""
    energies, products = numbers_of(file, "energy_j"), numbers_of(file, "energy_delay_js")
    rows = tuple(
        (record.values["part"], record.values["name"], energy, product)
        for record, energy, product in zip(file.records, energies.tolist(), products.tolist(), strict=True)
    )
    columns = (Column("part"), Column("name"), Column("energy J", 1), Column("energy-delay J s", 1))
    return Section("Energy", file.path.name, parts=(Table("Energy", columns, rows),))
