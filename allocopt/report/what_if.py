"""Combinations beside the first one: rows, tables for a terminal of 80 columns, and a verdict with what it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import fill
from typing import Any

import numpy as np

from allocopt.report.combination import (
    FEWEST_BLOCKS,
    MEASURES,
    WEEK,
    BlockSums,
    Combination,
    baseline,
    best_by,
    change_of,
)
from allocopt.report.words import Cell, aligned_table, percent
from allocopt.simulator.metrics import is_overloaded
from allocopt.simulator.recorded import on_held_nodes
from allocopt.simulator.schedule import HOP_COST, ClusterSchedule
from allocopt.simulator.what_if import Outcome
from allocopt.traces.variants import CONFIDENCE, JITTER

HEADER = ("allocator", "wait s", "+/- %", "slowdown", "hop cost", "+/- %", "frag.")
DIGITS = (None, 0, 1, 2, 0, 1, 3)
_IDLE_UTILIZATION, _IDLE_WAITING = 0.1, 0.01
_LARGEST_DIFFERENCE = 0.05  # of utilizations, recorded and simulated, and of what jobs get beside what they asked for


@dataclass(frozen=True, slots=True)
class WhatIfRow(Combination):
    """One combination of allocator and scheduler."""

    allocator: str
    scheduler: str
    jobs: int
    mean_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    mean_hop_cost: float | None  # Over jobs of several nodes; None where there are none
    fragmentation: tuple[float | None, ...]  # Of the idle nodes per level of the tree, the leaf level first
    utilization: float
    makespan_s: float
    runtime_s: float
    mean_wait_change: float | None = None
    mean_bounded_slowdown_change: float | None = None
    mean_hop_cost_change: float | None = None
    mean_wait_interval: tuple[float, ...] = ()
    mean_bounded_slowdown_interval: tuple[float, ...] = ()
    mean_hop_cost_interval: tuple[float, ...] = ()
    waited_jobs: int | None = None  # Did not start as they came
    hop_jobs: int | None = None  # Have several nodes
    shared_jobs: int | None = None  # Started on nodes that others held
    processors: int | None = None  # Size of this machine
    trace_processors: int | None = None  # Size of the trace's
    granted: float | None = None  # Processors that jobs hold for each that they asked for
    backlog: tuple[float, ...] = ()  # See `allocopt.simulator.metrics.MachineUse`
    block_days: int | None = None  # Days of submissions in a block
    # For each block with jobs their number, the seconds that they waited, the sum of their bounded slowdowns, the
    # number of those of several nodes and the sum of their hop costs
    blocks: tuple[tuple[float, ...], ...] = ()
    # Work of the jobs, as the share of the machine that it would take from the first submission to the last
    offered: float | None = None
    hops_slow: bool = True  # Whether hops may slow jobs down on this machine (``--hop-slowdown``)
    remarks: tuple[str, ...] = ()  # What else was found, a sentence each
    variants: int = 0  # Of the jobs, over which waits, slowdowns and hop costs are means; 0 for the jobs as they are

    @classmethod
    def of(cls, outcome: Outcome) -> "WhatIfRow":
        """Flatten an outcome, which is compared with nothing yet."""
        machine, schedule, sums = outcome.metrics.machine, outcome.schedule, BlockSums.of(*outcome.schedules)
        span = float(np.ptp(schedule.workload.submit))
        wait, slowdown, hop_cost = sums.means()
        longest = float(np.mean([one.wait_s.max() for one in outcome.schedules]))
        means = (len(schedule.workload), wait, longest, slowdown, hop_cost)
        use = (machine.fragmentation or (), machine.utilization, machine.makespan_s)
        return cls(
            *(outcome.allocator, outcome.scheduler, *means, *use, outcome.runtime_s),
            waited_jobs=int((schedule.wait_s > 0).sum()),
            hop_jobs=int(sums.has_several.sum()),
            shared_jobs=int(on_held_nodes(schedule).sum()),
            processors=schedule.processors,
            trace_processors=schedule.workload.machine_processors,
            backlog=machine.backlog,
            block_days=sums.days,
            blocks=sums.sums(),
            offered=machine.utilization * machine.makespan_s / span if span else None,
            hops_slow=not isinstance(schedule, ClusterSchedule),
            remarks=outcome.remarks,
            variants=len(outcome.variants),
        )

    @property
    def leaf_fragmentation(self) -> float | None:
        """Fragmentation of the idle nodes over leaves; None where there are none."""
        return self.fragmentation[0] if self.fragmentation else None

    @classmethod
    def stored(cls, held: Mapping[str, Any]) -> "WhatIfRow":
        """Return the row of its fields as JSON holds them."""
        fields: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in held.items()}
        return cls(**fields)


def what_is_assumed(rows: Sequence[WhatIfRow]) -> list[str]:
    """Return what a verdict takes for granted, and by which limits it is qualified, a sentence each."""
    lines = [
        "Users react to no wait: jobs come as in the trace. The machine begins empty, and is never down.",
        "Overloaded: in both quarters of the second half of the submissions the work that waits would take the whole "
        "machine more than 5 % of their time.",
        f"Nearly idle: less than {percent(_IDLE_UTILIZATION, 0)} of the machine is in use, or fewer than "
        f"{percent(_IDLE_WAITING, 0)} of the jobs wait.",
        "Intervals: weeks of submission, or days of a trace shorter than four weeks, are the sample, as if queues did "
        "not reach from one to the next; a t interval of the logarithm of the ratio of the means over jobs.",
    ]
    if variants := baseline(rows).variants:
        lines.append(
            f"Variants: each combination ran {variants} times on the jobs with run times multiplied by "
            f"exp(N(0, {JITTER:g})), the same for all; waits, slowdowns and hop costs are means over them, the "
            "rest is of the jobs as they are."
        )
    if baseline(rows).trace_processors is None:
        lines.append("The trace does not tell the size of its machine.")
    if any(row.is_recorded for row in rows):
        lines.append(
            "The record: jobs hold processors and nodes from the recorded start for the recorded run time; a node is "
            "idle where no job of the trace runs. Regret is beside the proven least hop cost on nodes idle then, or "
            "those that jobs share with processors left for its part: alone, with other jobs where they were, and for "
            "the starts of a minute together; of at most 1,000 starts and minutes, spread over the trace. Memory, "
            "features and partitions are not regarded."
        )
    return lines


def what_if_tables(rows: Sequence[WhatIfRow], width: int | None = None) -> str:
    """Format a table per scheduler, and a verdict, in lines of at most ``width`` characters."""
    tables = []
    for scheduler, group in groupby(rows, key=lambda row: row.scheduler):
        cells: list[list[Cell]] = []
        for row in group:
            wait, _, cost = row.changes_percent
            measures = (row.mean_wait_s, wait, row.mean_bounded_slowdown, row.mean_hop_cost, cost)
            cells.append([row.allocator, *measures, row.leaf_fragmentation])
        tables.append(f"scheduler {scheduler}\n{aligned_table(HEADER, cells, DIGITS, width)}")
    said = [line if width is None else fill(line, width, subsequent_indent="  ") for line in verdict(rows)]
    return "\n\n".join((*tables, "\n".join(said)))


def verdict(rows: Sequence[WhatIfRow]) -> list[str]:
    """Return what speaks against the comparison, the best combination by each measure, and what figures rest on."""
    simulated, first = [row for row in rows if not row.is_recorded] or list(rows), baseline(rows)
    lines = _qualifications(rows, simulated)
    overloaded = any(is_overloaded(row.backlog) for row in simulated)
    for measure in MEASURES:
        if overloaded and not measure.is_of_hops:
            lines.append(f"{measure.best}: no verdict: waits grow with the length of the trace")
        else:
            lines.append(best_by(measure, simulated, first))
    waits: dict[str, set[float]] = {}
    for row in simulated:
        waits.setdefault(row.scheduler, set()).add(row.mean_wait_s)
    if first.hops_slow and len(simulated) > len(waits) and all(len(different) == 1 for different in waits.values()):
        lines.append("waits are the allocators' only where hops slow jobs down: --hop-slowdown 0.2")
    has_intervals = any(line.endswith("])") for line in lines)
    varied = f" in {first.variants} variants" if first.variants else ""
    lines.append(f"+/- beside {first.name}; waits and slowdowns are means over {first.jobs:,} jobs{varied}")
    if first.hop_jobs:
        lines.append(f"hop cost: {HOP_COST:,.0f} a hop from a node of a job to each other one")
        lines.append(f"hop costs are means over {first.hop_jobs:,} of {first.jobs:,} jobs, those of several nodes")
    if has_intervals:
        unit = "weeks" if first.block_days == WEEK else "days"
        lines.append(f"in [ ]: {100 * CONFIDENCE:.0f} % intervals by {len(first.blocks):,} {unit}")
    elif 0 < len(first.blocks) < FEWEST_BLOCKS and len(simulated) > 1:
        lines.append(f"fewer than {FEWEST_BLOCKS} days: whether differences are chance is not known")
    return lines


def _qualifications(rows: Sequence[WhatIfRow], simulated: Sequence[WhatIfRow]) -> list[str]:
    first, record = simulated[0], next((row for row in rows if row.is_recorded), None)
    lines = []
    if growing := [row for row in simulated if is_overloaded(row.backlog)]:
        which = growing[0].name + (f" and {len(growing) - 1} more" if len(growing) > 1 else "")
        work = percent(growing[0].backlog[-1], 0)
        lines += [
            f"overloaded under {which}: the queue does not drain",
            f"the last quarter's waiting work would fill the machine for {work} of it",
        ]
        if offered := growing[0].offered:
            # Work that has started by the middle of the last quarter, at 7/8 of the time, is what the machine can do.
            near = max(0.01, 1 - max(row.backlog[-1] for row in growing) / (0.875 * offered))
            lines.append(
                f"jobs offer {percent(offered, 0)} of the machine; a verdict needs about {near:.2g} times this --load"
            )
    is_idle = first.utilization < _IDLE_UTILIZATION
    if first.waited_jobs is not None and (is_idle or first.waited_jobs < _IDLE_WAITING * first.jobs):
        use = f"{percent(first.utilization)} of the machine is in use"
        lines.append(f"nearly idle: {first.waited_jobs:,} of {first.jobs:,} jobs wait, {use}; waits tell little")
    size, trace_size = first.processors, first.trace_processors
    if size and trace_size and size != trace_size:
        compared = f"{'smaller' if size < trace_size else 'larger'} than the trace's ({size:,}, not {trace_size:,})"
        lines.append(f"the machine is {compared}; waits are not the site's")
    if first.granted is not None and first.granted > 1 + _LARGEST_DIFFERENCE:
        lines.append(f"whole nodes give jobs {first.granted:,.2f} times the processors that they asked for")
    if record is None:
        return lines
    if record.shared_jobs and not first.shared_jobs:
        shared = f"{record.shared_jobs:,} of {record.jobs:,} recorded jobs started on nodes that others held"
        lines.append(f"{shared}; simulated jobs have nodes of their own")
    points = 100 * (first.utilization - record.utilization)
    if abs(points) > 100 * _LARGEST_DIFFERENCE:
        both = f"{percent(record.utilization)} recorded, {percent(first.utilization)} under {first.name}"
        lines.append(f"utilization: {both}; the simulation is not the site's machine")
    apart = (
        ("mean wait", change_of(first.mean_wait_s, record.mean_wait_s)),
        ("slowdown", change_of(first.mean_bounded_slowdown, record.mean_bounded_slowdown)),
        ("hop cost", change_of(first.mean_hop_cost, record.mean_hop_cost)),
    )
    known = [f"{name} {100 * change:+,.1f} %" for name, change in apart if change is not None]
    if apart[-1][1] is not None and record.hop_jobs not in (None, first.hop_jobs):
        known[-1] += f" (of {first.hop_jobs:,} jobs, not {record.hop_jobs:,})"
    lines.append(f"{first.name} beside the record: {', '.join([*known, f'utilization {points:+.1f} points'])}")
    return [*lines, *record.remarks]
