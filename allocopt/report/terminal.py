"""Tables for a terminal: a comparison of solvers, and the metrics of a schedule."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from statistics import fmean, median

from allocopt.problems.kind import get_kind, is_maximized
from allocopt.report.rows import BenchRow, SolveRow
from allocopt.report.words import Cell, aligned_table, shortened
from allocopt.simulator.groups import UNKNOWN, Grouping
from allocopt.simulator.metrics import JobStatistics, Metrics
from allocopt.solving.solution_files import BestKnown

HEADER = (
    "solver", "strategy", "solves", "mean cost", "gap to best known %", "to SCAS optimum %", "proved %",
    "median ms", "max ms",
)  # fmt: skip
DIGITS = (None, None, 0, 1, 3, 2, 0, 2, 2)
_STATISTICS = (
    "jobs", "mean wait s", "median wait s", "95 % wait s", "max wait s", "mean bounded slowdown", "starved",
    "mean hop cost",
)  # fmt: skip
_MOST_GROUPS = 20  # of a grouping that are shown


def summary_table(rows: Sequence[BenchRow], width: int | None = None) -> str:
    """Return a table of rows by solver and strategy, in order of appearance, at most ``width`` characters wide."""
    title = "mean cost" if _are_costs(rows) else "mean objective"
    header = [title if name == "mean cost" else name for name in HEADER]
    groups: dict[tuple[str, str], list[BenchRow]] = {}
    for row in rows:
        groups.setdefault((row.solve.solver, row.solve.strategy or "-"), []).append(row)
    lines: list[list[Cell]] = []
    for (solver, strategy), own in groups.items():
        objectives = [row.solve.objective for row in own if row.solve.objective is not None]
        mean: Cell = fmean(objectives) if objectives else None
        # Hop costs have the decimals of the column, other objectives six significant digits.
        if mean is not None and not _are_costs(own):
            mean = f"{mean:.6g}"
        to_best = _mean_excess([(row.solve, row.best_known) for row in own])
        to_scas = _mean_excess([(row.solve, row.best_known_scas) for row in own])
        proved = 100.0 * fmean(row.solve.status == "OPTIMAL" for row in own)
        times_ms = [1e3 * row.solve.runtime_s for row in own]
        lines.append([solver, strategy, len(own), mean, to_best, to_scas, proved, median(times_ms), max(times_ms)])
    return aligned_table(header, lines, DIGITS, width)


def _are_costs(rows: Sequence[BenchRow]) -> bool:
    return all(get_kind(row.solve.kind).decimals is not None for row in rows)


def _mean_excess(pairs: list[tuple[SolveRow, BestKnown | None]]) -> float | None:
    """Return by how many per cent objectives are worse than best known values, on average; None if none is known."""
    excesses = [
        100.0
        * (known.objective - row.objective if is_maximized(row.kind) else row.objective - known.objective)
        / max(1e-9, abs(known.objective))
        for row, known in pairs
        # Relative to 0 there is no percentage, unless both are 0.
        if row.objective is not None and known is not None and (known.objective != 0 or row.objective == 0)
    ]
    return fmean(excesses) if excesses else None


def metrics_table(metrics: Metrics, width: int | None = None) -> str:
    """Return tables of metrics over jobs, by size of job, and over time, at most ``width`` characters wide."""
    jobs, machine = metrics.jobs, metrics.machine
    measures: list[list[Cell]] = [
        ["wait s", *astuple(jobs.wait_s)],
        ["response s", *astuple(jobs.response_s)],
        ["slowdown", *astuple(jobs.slowdown)],
        ["bounded slowdown", *astuple(jobs.bounded_slowdown)],
    ]
    by_size = {
        str(own.most) if own.fewest == own.most else f"{own.fewest}-{own.most}": own.statistics
        for own in metrics.by_size
    }
    over_time = [
        ("makespan s", f"{machine.makespan_s:,.0f}"),
        *(
            (f"utilization of {name}".removesuffix(" of "), f"{share:.6f}")
            for name, share in machine.utilization_by_resource or (("", machine.utilization),)
        ),
        ("mean queue length", f"{machine.mean_queue_length:,.2f}"),
        ("max queue length", f"{machine.max_queue_length:,}"),
        (f"jobs that waited longer than {metrics.starvation_s:,g} s", f"{jobs.starved:,}"),
        *(
            (f"fragmentation of idle nodes, level {level}", "-" if mean is None else f"{mean:.4f}")
            for level, mean in enumerate(machine.fragmentation or (), 1)
        ),
    ]
    tables = (
        aligned_table(("over jobs", "mean", "median", "95 %", "max"), measures, (None, 2, 2, 2, 2), width),
        _statistics_table("processors", {**by_size, "all": jobs}, width),
        aligned_table(("over time", "value"), over_time, (None, 4)),
    )
    return "\n\n".join(tables)


def variants_table(variants: int, found: Mapping[str, Sequence[float]]) -> str:
    """Return a table of means over variants of a trace, with their 95 % intervals."""
    cells: list[list[Cell]] = [[name, *interval] for name, interval in found.items()]
    return aligned_table((f"over {variants} variants", "mean", "95 % from", "to"), cells, (None, 2, 2, 2))


def groups_table(grouping: Grouping, groups: Mapping[str, JobStatistics], width: int | None = None) -> str:
    """Return a table of the metrics of the first groups of jobs, at most ``width`` characters wide."""
    if list(groups) == [UNKNOWN]:
        return f"by {grouping.title}: the trace does not state it"
    shown = dict(list(groups.items())[:_MOST_GROUPS])
    table = _statistics_table(grouping.title, {shortened(name): jobs for name, jobs in shown.items()}, width)
    left = [jobs.jobs for jobs in groups.values()][_MOST_GROUPS:]
    return f"{table}\nand {len(left):,} more groups of {sum(left):,} jobs (--json)" if left else table


def _statistics_table(title: str, groups: Mapping[str, JobStatistics], width: int | None) -> str:
    cells: list[list[Cell]] = [
        [name, held.jobs, *astuple(held.wait_s), held.bounded_slowdown.mean, held.starved, held.mean_hop_cost]
        for name, held in groups.items()
    ]
    return aligned_table((title, *_STATISTICS), cells, (None, 0, 2, 2, 2, 2, 2, 0, 1), width)
