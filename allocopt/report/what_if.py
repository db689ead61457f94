"""The outcomes of combinations beside the first one: rows, tables for a terminal of 80 columns, and a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import fill

from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.what_if import Outcome

HEADER = ("allocator", "wait s", "+/- %", "slowdown", "hop cost", "+/- %", "frag.")
DIGITS = (None, 0, 1, 2, 0, 1, 3)


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """One combination of allocator and scheduler.

    Hop cost is the mean over jobs of several nodes, None where there are none; fragmentation is that of the idle nodes
    per level of the tree, the leaf level first. Changes are relative to the first combination, 0.1 for 10 % more, and
    None where that has 0 or nothing.
    """

    allocator: str
    scheduler: str
    jobs: int
    mean_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    mean_hop_cost: float | None
    fragmentation: tuple[float | None, ...]
    utilization: float
    makespan_s: float
    runtime_s: float
    mean_wait_change: float | None = None
    mean_bounded_slowdown_change: float | None = None
    mean_hop_cost_change: float | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> "WhatIfRow":
        """Flatten an outcome, which is compared with nothing yet."""
        jobs, machine = outcome.metrics.jobs, outcome.metrics.machine
        return cls(
            outcome.allocator,
            outcome.scheduler,
            jobs.jobs,
            jobs.wait_s.mean,
            jobs.wait_s.maximum,
            jobs.bounded_slowdown.mean,
            jobs.mean_hop_cost,
            machine.fragmentation or (),
            machine.utilization,
            machine.makespan_s,
            outcome.runtime_s,
        )

    def beside(self, first: "WhatIfRow") -> "WhatIfRow":
        """Return the row with its changes relative to the first one."""
        return replace(
            self,
            mean_wait_change=_change(self.mean_wait_s, first.mean_wait_s),
            mean_bounded_slowdown_change=_change(self.mean_bounded_slowdown, first.mean_bounded_slowdown),
            mean_hop_cost_change=_change(self.mean_hop_cost, first.mean_hop_cost),
        )


def what_if_tables(rows: Sequence[WhatIfRow], width: int | None = None) -> str:
    """Format a table per scheduler, and a verdict: which combination has the least of each.

    The first row is what others are compared with; ``width`` is the most characters in a line, None for any.
    """
    tables = [
        f"scheduler {scheduler}\n{aligned_table(HEADER, [_cells(row) for row in group], DIGITS, width)}"
        for scheduler, group in groupby(rows, key=lambda row: row.scheduler)
    ]
    said = [line if width is None else fill(line, width, subsequent_indent="  ") for line in verdict(rows)]
    return "\n\n".join((*tables, "\n".join(said)))


def _cells(row: WhatIfRow) -> list[Cell]:
    return [
        row.allocator,
        row.mean_wait_s,
        _percent(row.mean_wait_change),
        row.mean_bounded_slowdown,
        row.mean_hop_cost,
        _percent(row.mean_hop_cost_change),
        row.fragmentation[0] if row.fragmentation else None,
    ]


def verdict(rows: Sequence[WhatIfRow]) -> list[str]:
    """Name the best combination by each measure; one line each, and what they are compared with."""
    lines = [f"+/- beside {_name(rows[0])}; waits and slowdowns are means over {rows[0].jobs:,} jobs"]
    measures: tuple[tuple[str, Callable[[WhatIfRow], float | None], Callable[[WhatIfRow], float | None], str], ...] = (
        ("shortest mean wait", lambda row: row.mean_wait_s, lambda row: row.mean_wait_change, "{:,.0f} s"),
        (
            "least slowdown",
            lambda row: row.mean_bounded_slowdown,
            lambda row: row.mean_bounded_slowdown_change,
            "{:,.2f}",
        ),
        ("lowest hop cost", lambda row: row.mean_hop_cost, lambda row: row.mean_hop_cost_change, "{:,.0f}"),
    )
    for name, value, change, written in measures:
        known = [row for row in rows if value(row) is not None]
        if not known:
            lines.append(f"{name}: no job has several nodes")
            continue
        least = min(value(row) or 0.0 for row in known)
        best = [row for row in known if (value(row) or 0.0) <= least + 1e-9 * abs(least)]
        relative = change(best[0])
        shown = "" if relative is None or rows[0] in best else f" ({_signed_percent(relative)} %)"
        lines.append(f"{name}: {_names(best, known)}, {written.format(least)}{shown}")
    return lines


def _signed_percent(change: float) -> str:
    """Write a relative change in per cent with its sign; what is rounded to zero has none."""
    written = f"{100 * change:+.1f}"
    return written if float(written) else "0.0"


def _names(best: Sequence[WhatIfRow], rows: Sequence[WhatIfRow]) -> str:
    if len(best) == len(rows):
        return "all the same"
    scheduler = best[0].scheduler
    if len(best) > 1 and [row for row in rows if row.scheduler == scheduler] == list(best):
        return f"any under {scheduler}"
    return _name(best[0])


def _name(row: WhatIfRow) -> str:
    return f"{row.allocator} under {row.scheduler}"


def _percent(change: float | None) -> float | None:
    return None if change is None else 100.0 * change


def _change(value: float | None, first: float | None) -> float | None:
    """Change relative to the first; None where there is nothing to compare with."""
    if value is None or not first:
        return None
    return value / first - 1.0
