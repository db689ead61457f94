"""Combinations compared with the first one: rows, tables for a terminal, and a verdict with its assumptions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from allocopt.report.combination import (
    MEASURES,
    WEEK,
    BlockSums,
    Combination,
    baseline,
    best_by,
)
from allocopt.report.verdict import FEWEST_SAMPLES, change_of
from allocopt.report.what_if_groups import GroupRow, judged_groups
from allocopt.report.words import Cell, aligned_table, filled, percent
from allocopt.simulator.metrics import is_overloaded
from allocopt.simulator.recorded import on_held_nodes
from allocopt.simulator.schedule import HOP_COST, ClusterSchedule
from allocopt.simulator.what_if import Outcome
from allocopt.traces.variants import CONFIDENCE, JITTER

HEADER = ("allocator", "wait s", "+/- %", "slowdown", "hop cost", "+/- %", "frag.")
DIGITS = (None, 0, 1, 2, 0, 1, 3)
_IDLE_UTILIZATION, _IDLE_WAITING = 0.1, 0.01
_LARGEST_DIFFERENCE = 0.05  # of recorded and simulated utilization, and of granted / requested processors from 1


@dataclass(frozen=True, slots=True)
class WhatIfRow(Combination):
    """One combination of allocator and scheduler."""

    allocator: str
    scheduler: str
    jobs: int
    mean_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    mean_hop_cost: float | None  # Over jobs of several nodes; None if there are none
    fragmentation: tuple[float | None, ...]  # Fragmentation of idle nodes per level of the tree, leaf level first
    utilization: float
    makespan_s: float
    runtime_s: float
    mean_wait_change: float | None = None
    mean_bounded_slowdown_change: float | None = None
    mean_hop_cost_change: float | None = None
    mean_wait_interval: tuple[float, ...] = ()
    mean_bounded_slowdown_interval: tuple[float, ...] = ()
    mean_hop_cost_interval: tuple[float, ...] = ()
    waited_jobs: int | None = None  # Number of jobs that did not start when they were submitted
    hop_jobs: int | None = None  # Number of jobs with several nodes
    shared_jobs: int | None = None  # Number of jobs that started on nodes that other jobs held
    processors: int | None = None  # Processors of the simulated machine
    trace_processors: int | None = None  # Processors of the machine of the trace
    granted: float | None = None  # Ratio of held to requested processors
    backlog: tuple[float, ...] = ()  # See `allocopt.simulator.metrics.MachineUse`
    block_days: int | None = None  # Days of submissions in a block
    # Sums for each block with jobs: number, waits in seconds, bounded slowdowns, number with several nodes, hop costs
    blocks: tuple[tuple[float, ...], ...] = ()
    # Work of the jobs, as a share of the machine's capacity from the first submission to the last
    offered: float | None = None
    hops_slow: bool = True  # Whether hops may slow jobs down on this machine (``--hop-slowdown``)
    remarks: tuple[str, ...] = ()  # Further findings, one sentence each
    variants: int = 0  # Number of variants over which waits, slowdowns and hop costs are means; 0 for the jobs as given

    @classmethod
    def of(cls, outcome: Outcome) -> "WhatIfRow":
        """Return the row of an outcome, without changes relative to another one."""
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
        """Fragmentation of the idle nodes over leaves; None if there are none."""
        return self.fragmentation[0] if self.fragmentation else None

    @classmethod
    def stored(cls, held: Mapping[str, Any]) -> "WhatIfRow":
        """Return a row from its fields as JSON holds them."""
        fields: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in held.items()}
        return cls(**fields)


def what_is_assumed(rows: Sequence[WhatIfRow]) -> list[str]:
    """Return sentences on the assumptions of a verdict, and on the limits that it uses."""
    lines = [
        "Jobs are submitted as in the trace, however long users wait. The machine is empty at first, and never down.",
        "The machine is called overloaded if the waiting work would keep all of it busy for more than 5 % of the third "
        "quarter of the time of submissions, and also for more than 5 % of the last quarter.",
        f"It is called nearly idle if less than {percent(_IDLE_UTILIZATION, 0)} of it is in use, or fewer than "
        f"{percent(_IDLE_WAITING, 0)} of the jobs wait.",
        "Intervals are computed from weeks of submissions, or from days if the trace is shorter than four weeks, as if "
        "these were independent. They are t intervals of the logarithm of the ratio of the means over jobs.",
    ]
    if variants := baseline(rows).variants:
        lines.append(
            f"Variants: each combination was simulated {variants} times with run times multiplied by "
            f"exp(N(0, {JITTER:g})), the same for all combinations. Waits, slowdowns and hop costs are means over "
            "these; all other values are for the jobs as given."
        )
    if baseline(rows).trace_processors is None:
        lines.append("The trace does not state the size of its machine.")
    if any(row.is_recorded for row in rows):
        lines.append(
            "In the record, jobs hold processors and nodes from the recorded start for the recorded run time. A node "
            "is idle if no job of the trace runs on it. Regret is relative to the proved minimum of the hop cost on "
            "the idle nodes; if jobs share nodes, also on nodes with enough free processors. It is computed for single "
            "jobs, while the others stay where they were, and for all starts of a minute together. At most 1,000 "
            "starts and minutes are used, spread over the trace. Memory, features and partitions are ignored."
        )
    return lines


def what_if_tables(rows: Sequence[WhatIfRow], width: int | None = None) -> str:
    """Return a table per scheduler and the details of the comparison, in lines of at most ``width`` characters."""
    tables = []
    for scheduler, group in groupby(rows, key=lambda row: row.scheduler):
        cells: list[list[Cell]] = []
        for row in group:
            wait, _, cost = row.changes_percent
            measures = (row.mean_wait_s, wait, row.mean_bounded_slowdown, row.mean_hop_cost, cost)
            cells.append([row.allocator, *measures, row.leaf_fragmentation])
        tables.append(f"scheduler {scheduler}\n{aligned_table(HEADER, cells, DIGITS, width)}")
    said = [filled(line, width) for line in details(rows)]
    return "\n\n".join((*tables, "\n".join(said)))


def verdict(rows: Sequence[WhatIfRow], groups: Sequence[GroupRow] = ()) -> list[str]:
    """Return the verdict in at most two sentences, one on waits and one on hop costs.

    A sentence names a group of jobs only if the difference in it is clear, and not that over all jobs.
    """
    simulated, first = [row for row in rows if not row.is_recorded] or list(rows), baseline(rows)
    if len(simulated) == 1:
        only = f"Only {first.name} was simulated: {first.jobs:,} jobs wait {first.mean_wait_s:,.0f} s on average."
        record = next((row for row in rows if row.is_recorded), None)
        if record is None or record is first:
            return [only]
        change = change_of(first.mean_wait_s, record.mean_wait_s)
        beside = "" if change is None else f", {100 * change:+,.1f} % compared with the site's record"
        return [f"{only[:-1]}{beside}."]
    if growing := [row for row in simulated if is_overloaded(row.backlog)]:
        others = f" and {len(growing) - 1} more" if len(growing) > 1 else ""
        load = f"; a --load of about {_bearable_load(growing):.2g} would give one" if growing[0].offered else ""
        waits = f"There is no verdict on waits, because the queue only grows under {growing[0].name}{others}{load}."
    elif _is_nearly_idle(first):
        waits = (
            f"Waits say little, because the machine is nearly idle: {first.waited_jobs:,} of {first.jobs:,} jobs wait."
        )
    else:
        waits = ""
    sentences = [waits] if waits else []
    for measure in MEASURES:
        if measure.name == "mean_bounded_slowdown" or (waits and not measure.is_of_hops):
            continue
        if (comparison := measure.compared(simulated, judged_groups(groups, measure))) is not None:
            sentences.append(comparison.sentence("" if sentences and not waits else None))
    return sentences


def details(rows: Sequence[WhatIfRow]) -> list[str]:
    """Return lines: reasons to doubt the comparison, the best combination by each measure, and how to read numbers."""
    simulated, first = [row for row in rows if not row.is_recorded] or list(rows), baseline(rows)
    lines = _qualifications(rows, simulated)
    overloaded = any(is_overloaded(row.backlog) for row in simulated)
    for measure in MEASURES:
        if overloaded and not measure.is_of_hops:
            lines.append(f"{measure.best}: no verdict: waits grow with the length of the trace")
        else:
            lines.append(best_by(measure, simulated))
    waits: dict[str, set[float]] = {}
    for row in simulated:
        waits.setdefault(row.scheduler, set()).add(row.mean_wait_s)
    if first.hops_slow and len(simulated) > len(waits) and all(len(different) == 1 for different in waits.values()):
        lines.append("allocators do not change waits here; --hop-slowdown 0.2 lets hops slow jobs")
    has_intervals = any(line.endswith("])") for line in lines)
    varied = f" in {first.variants} variants" if first.variants else ""
    lines.append(f"+/- is relative to {first.name}; waits, slowdowns: means over {first.jobs:,} jobs{varied}")
    if first.hop_jobs:
        lines.append(f"hop cost: {HOP_COST:,.0f} per hop from a node to each other node of its job")
        lines.append(f"hop costs are means over the {first.hop_jobs:,} of {first.jobs:,} jobs with several nodes")
    if has_intervals:
        unit = "weekly" if first.block_days == WEEK else "daily"
        lines.append(
            f"brackets show {100 * CONFIDENCE:.0f} % confidence intervals, from {len(first.blocks):,} {unit} blocks"
        )
    elif 0 < len(first.blocks) < FEWEST_SAMPLES and len(simulated) > 1:
        lines.append(f"fewer than {FEWEST_SAMPLES} days of submissions: differences may be chance")
    return lines


def _qualifications(rows: Sequence[WhatIfRow], simulated: Sequence[WhatIfRow]) -> list[str]:
    first, record = simulated[0], next((row for row in rows if row.is_recorded), None)
    lines = []
    if growing := [row for row in simulated if is_overloaded(row.backlog)]:
        which = growing[0].name + (f" and {len(growing) - 1} more" if len(growing) > 1 else "")
        work = percent(growing[0].backlog[-1], 0)
        lines += [
            f"overloaded under {which}: the queue does not drain",
            f"work that waits in the last quarter would fill the machine for {work} of it",
        ]
        if offered := growing[0].offered:
            near = _bearable_load(growing)
            lines.append(
                f"jobs need {percent(offered, 0)} of the machine; for a verdict, multiply --load by about {near:.2g}"
            )
    if _is_nearly_idle(first):
        use = f"{percent(first.utilization)} in use"
        lines.append(f"nearly idle: {first.waited_jobs:,} of {first.jobs:,} jobs wait, {use}; waits mean little")
    size, trace_size = first.processors, first.trace_processors
    if size and trace_size and size != trace_size:
        compared = f"{'smaller' if size < trace_size else 'larger'} than the trace's ({size:,}, not {trace_size:,})"
        lines.append(f"the machine is {compared}; waits differ from the site's")
    if first.granted is not None and first.granted > 1 + _LARGEST_DIFFERENCE:
        lines.append(f"with whole nodes, jobs hold {first.granted:,.2f} times the processors that they requested")
    if record is None:
        return lines
    if record.shared_jobs and not first.shared_jobs:
        shared = f"{record.shared_jobs:,} of {record.jobs:,} recorded jobs started on nodes in use"
        lines.append(f"{shared}; simulated ones do not")
    points = 100 * (first.utilization - record.utilization)
    if abs(points) > 100 * _LARGEST_DIFFERENCE:
        both = f"{percent(record.utilization)} recorded, {percent(first.utilization)} under {first.name}"
        lines.append(f"utilization: {both}; the machines differ")
    apart = (
        ("mean wait", change_of(first.mean_wait_s, record.mean_wait_s)),
        ("slowdown", change_of(first.mean_bounded_slowdown, record.mean_bounded_slowdown)),
        ("hop cost", change_of(first.mean_hop_cost, record.mean_hop_cost)),
    )
    known = [f"{name} {100 * change:+,.1f} %" for name, change in apart if change is not None]
    if apart[-1][1] is not None and record.hop_jobs not in (None, first.hop_jobs):
        known[-1] += f" (of {first.hop_jobs:,} jobs, not {record.hop_jobs:,})"
    lines.append(f"{first.name} compared to the record: {', '.join([*known, f'utilization {points:+.1f} points'])}")
    return [*lines, *record.remarks]


def _bearable_load(growing: Sequence[WhatIfRow]) -> float:
    """Return the share of the load that the machine can serve, given the combinations whose queues grow."""
    # The capacity is the work that has started by the middle of the last quarter, at 7/8 of the time.
    return max(0.01, 1 - max(row.backlog[-1] for row in growing) / (0.875 * (growing[0].offered or 1.0)))


def _is_nearly_idle(row: WhatIfRow) -> bool:
    if row.waited_jobs is None:
        return False
    return row.utilization < _IDLE_UTILIZATION or row.waited_jobs < _IDLE_WAITING * row.jobs
