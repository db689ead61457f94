"""The metrics of a schedule as tables for a terminal."""

from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.metrics import JobStatistics, Metrics, Spread

MEASURES_HEADER, MEASURES_DIGITS = ("over jobs", "mean", "median", "95 %", "max"), (None, 2, 2, 2, 2)
SIZES_HEADER = (
    "processors", "jobs", "mean wait s", "median wait s", "95 % wait s", "max wait s", "mean bounded slowdown",
    "starved", "mean hop cost",
)  # fmt: skip
SIZES_DIGITS = (None, 0, 2, 2, 2, 2, 2, 0, 1)
MACHINE_HEADER, MACHINE_DIGITS = ("over time", "value"), (None, 4)


def metrics_table(metrics: Metrics, width: int | None = None) -> str:
    """Format three tables, one below the other: measures over jobs, by size of job, and over time.

    ``width`` is the most characters in a line, None for any.
    """
    return "\n\n".join((_measures(metrics.jobs, width), _sizes(metrics, width), _machine(metrics)))


def _measures(jobs: JobStatistics, width: int | None) -> str:
    spreads: tuple[tuple[str, Spread], ...] = (
        ("wait s", jobs.wait_s),
        ("response s", jobs.response_s),
        ("slowdown", jobs.slowdown),
        ("bounded slowdown", jobs.bounded_slowdown),
    )
    rows = [(name, each.mean, each.median, each.percentile_95, each.maximum) for name, each in spreads]
    return aligned_table(MEASURES_HEADER, rows, MEASURES_DIGITS, width)


def _sizes(metrics: Metrics, width: int | None) -> str:
    rows = [(_limits(each.fewest, each.most), each.statistics) for each in metrics.by_size]
    cells = [_size_row(name, jobs) for name, jobs in (*rows, ("all", metrics.jobs))]
    return aligned_table(SIZES_HEADER, cells, SIZES_DIGITS, width)


def _limits(fewest: int, most: int) -> str:
    return str(most) if fewest == most else f"{fewest}-{most}"


def _size_row(name: str, jobs: JobStatistics) -> list[Cell]:
    wait = jobs.wait_s
    waits: list[Cell] = [wait.mean, wait.median, wait.percentile_95, wait.maximum]
    return [name, jobs.jobs, *waits, jobs.bounded_slowdown.mean, jobs.starved, jobs.mean_hop_cost]


def _machine(metrics: Metrics) -> str:
    machine = metrics.machine
    starved = f"jobs that waited longer than {metrics.starvation_s:,g} s"
    rows = [
        ("makespan s", f"{machine.makespan_s:,.0f}"),
        ("utilization", f"{machine.utilization:.6f}"),
        ("mean queue length", f"{machine.mean_queue_length:,.2f}"),
        ("max queue length", f"{machine.max_queue_length:,}"),
        (starved, f"{metrics.jobs.starved:,}"),
    ]
    for level, mean in enumerate(machine.fragmentation or (), 1):
        rows.append((f"fragmentation of idle nodes, level {level}", "-" if mean is None else f"{mean:.4f}"))
    return aligned_table(MACHINE_HEADER, rows, MACHINE_DIGITS)
