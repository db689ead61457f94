"""The outcomes of combinations beside the first one: rows, tables for a terminal of 80 columns, and a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import fill
from typing import Any

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

    @property
    def name(self) -> str:
        """Its allocator and its scheduler."""
        return f"{self.allocator} under {self.scheduler}"

    @classmethod
    def stored(cls, held: Mapping[str, Any]) -> "WhatIfRow":
        """Return the row of its fields as JSON holds them."""
        return cls(**{**held, "fragmentation": tuple(held["fragmentation"])})

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
    tables = []
    for scheduler, group in groupby(rows, key=lambda row: row.scheduler):
        cells: list[list[Cell]] = []
        for row in group:
            changes = (row.mean_wait_change, row.mean_hop_cost_change)
            wait, cost = (None if change is None else 100.0 * change for change in changes)
            leaf = row.fragmentation[0] if row.fragmentation else None
            cells.append(
                [row.allocator, row.mean_wait_s, wait, row.mean_bounded_slowdown, row.mean_hop_cost, cost, leaf]
            )
        tables.append(f"scheduler {scheduler}\n{aligned_table(HEADER, cells, DIGITS, width)}")
    said = [line if width is None else fill(line, width, subsequent_indent="  ") for line in verdict(rows)]
    return "\n\n".join((*tables, "\n".join(said)))


def verdict(rows: Sequence[WhatIfRow]) -> list[str]:
    """Name the best combination by each measure; one line each, and what they are compared with."""
    first = rows[0]
    lines = [f"+/- beside {first.name}; waits and slowdowns are means over {first.jobs:,} jobs"]
    for title, measure, change, written in (
        ("shortest mean wait", "mean_wait_s", "mean_wait_change", "{:,.0f} s"),
        ("least slowdown", "mean_bounded_slowdown", "mean_bounded_slowdown_change", "{:,.2f}"),
        ("lowest hop cost", "mean_hop_cost", "mean_hop_cost_change", "{:,.0f}"),
    ):
        known = [(getattr(row, measure), row) for row in rows if getattr(row, measure) is not None]
        if not known:
            lines.append(f"{title}: no job has several nodes")
            continue
        least = min(value for value, _ in known)
        best = [row for value, row in known if value <= least + 1e-9 * abs(least)]
        of_scheduler = [row for _, row in known if row.scheduler == best[0].scheduler]
        name = f"{best[0].scheduler} with any allocator" if len(best) > 1 and of_scheduler == best else best[0].name
        if len(best) == len(known):
            name = "all the same"
        relative = getattr(best[0], change)
        signed = "" if relative is None else f"{100 * relative:+.1f}"
        # What is rounded to zero has no sign.
        signed = signed if not signed or float(signed) else "0.0"
        shown = "" if not signed or first in best else f" ({signed} %)"
        lines.append(f"{title}: {name}, {written.format(least)}{shown}")
    waits: dict[str, set[float]] = {}
    for row in rows:
        waits.setdefault(row.scheduler, set()).add(row.mean_wait_s)
    if len(rows) > len(waits) and all(len(different) == 1 for different in waits.values()):
        lines.append("waits are the allocators' only where hops slow jobs down: --hop-slowdown 0.2")
    return lines


def _change(value: float | None, first: float | None) -> float | None:
    """Change relative to the first; None where there is nothing to compare with."""
    if value is None or not first:
        return None
    return value / first - 1.0
