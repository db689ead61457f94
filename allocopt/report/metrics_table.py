"""The metrics of a schedule as tables for a terminal."""

from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.metrics import Metrics

_SIZES = (
    "processors", "jobs", "mean wait s", "median wait s", "95 % wait s", "max wait s", "mean bounded slowdown",
    "starved", "mean hop cost",
)  # fmt: skip


def metrics_table(metrics: Metrics, width: int | None = None) -> str:
    """Format three tables, one below the other: measures over jobs, by size of job, and over time.

    ``width`` is the most characters in a line, None for any.
    """
    jobs, machine = metrics.jobs, metrics.machine
    spreads = (
        ("wait s", jobs.wait_s),
        ("response s", jobs.response_s),
        ("slowdown", jobs.slowdown),
        ("bounded slowdown", jobs.bounded_slowdown),
    )
    measures = [(name, each.mean, each.median, each.percentile_95, each.maximum) for name, each in spreads]
    sizes: list[list[Cell]] = []
    for own in (*metrics.by_size, None):
        name = "all" if own is None else str(own.most) if own.fewest == own.most else f"{own.fewest}-{own.most}"
        held = jobs if own is None else own.statistics
        waits: list[Cell] = [held.wait_s.mean, held.wait_s.median, held.wait_s.percentile_95, held.wait_s.maximum]
        sizes.append([name, held.jobs, *waits, held.bounded_slowdown.mean, held.starved, held.mean_hop_cost])
    over_time = [
        ("makespan s", f"{machine.makespan_s:,.0f}"),
        ("utilization", f"{machine.utilization:.6f}"),
        ("mean queue length", f"{machine.mean_queue_length:,.2f}"),
        ("max queue length", f"{machine.max_queue_length:,}"),
        (f"jobs that waited longer than {metrics.starvation_s:,g} s", f"{jobs.starved:,}"),
    ]
    for level, mean in enumerate(machine.fragmentation or (), 1):
        over_time.append((f"fragmentation of idle nodes, level {level}", "-" if mean is None else f"{mean:.4f}"))
    tables = (
        aligned_table(("over jobs", "mean", "median", "95 %", "max"), measures, (None, 2, 2, 2, 2), width),
        aligned_table(_SIZES, sizes, (None, 0, 2, 2, 2, 2, 2, 0, 1), width),
        aligned_table(("over time", "value"), over_time, (None, 4)),
    )
    return "\n\n".join(tables)
