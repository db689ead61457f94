"""Combinations beside the first one: rows, tables for a terminal of 80 columns, and a verdict with what it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import fill
from typing import Any

import numpy as np

from allocopt.report.words import Cell, aligned_table, percent
from allocopt.simulator.metrics import is_overloaded
from allocopt.simulator.recorded import RECORDED, on_held_nodes
from allocopt.simulator.schedule import HOP_COST, ClusterSchedule
from allocopt.simulator.what_if import Outcome

HEADER = ("allocator", "wait s", "+/- %", "slowdown", "hop cost", "+/- %", "frag.")
DIGITS = (None, 0, 1, 2, 0, 1, 3)
# Columns of a block; see `WhatIfRow.blocks`.
_JOBS, _WAIT, _SLOWDOWN, _HOP_JOBS, _HOP_COST = range(5)
_DAY_S, _WEEK = 86_400.0, 7
_FEWEST_WEEKS, _FEWEST_BLOCKS = 4, 3
_CONFIDENCE = 0.95
_IDLE_UTILIZATION, _IDLE_WAITING = 0.1, 0.01
_LARGEST_DIFFERENCE = 0.05  # of utilizations, recorded and simulated, and of what jobs get beside what they asked for


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """One combination of allocator and scheduler.

    Changes are relative to the first combination, 0.1 for 10 % more, and None where that has 0 or nothing. Their
    intervals, from and to, hold the true change in 95 % of such traces; they are empty where the trace has fewer than
    three blocks.
    """

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

    @classmethod
    def of(cls, outcome: Outcome) -> "WhatIfRow":
        """Flatten an outcome, which is compared with nothing yet."""
        jobs, machine, schedule = outcome.metrics.jobs, outcome.metrics.machine, outcome.schedule
        submit, costs = schedule.workload.submit, schedule.hop_costs()
        several = np.zeros(len(submit), dtype=np.bool_) if costs is None else ~np.isnan(costs)
        span = float(np.ptp(submit))
        days = _WEEK if span >= _FEWEST_WEEKS * _WEEK * _DAY_S else 1
        times, block = schedule.job_times, ((submit - submit.min()) // (days * _DAY_S)).astype(np.int64)
        known_costs = several if costs is None else np.nan_to_num(costs)
        weights = (np.ones(len(submit)), times.wait_s, times.bounded_slowdown, several, known_costs)
        blocks = np.array([np.bincount(block, weight) for weight in weights]).T
        means = (jobs.jobs, jobs.wait_s.mean, jobs.wait_s.maximum, jobs.bounded_slowdown.mean, jobs.mean_hop_cost)
        use = (machine.fragmentation or (), machine.utilization, machine.makespan_s)
        return cls(
            *(outcome.allocator, outcome.scheduler, *means, *use, outcome.runtime_s),
            waited_jobs=int((times.wait_s > 0).sum()),
            hop_jobs=int(several.sum()),
            shared_jobs=int(on_held_nodes(schedule).sum()),
            processors=schedule.processors,
            trace_processors=schedule.workload.machine_processors,
            backlog=machine.backlog,
            block_days=days,
            blocks=tuple(map(tuple, blocks[blocks[:, _JOBS] > 0].tolist())),
            offered=machine.utilization * machine.makespan_s / span if span else None,
            hops_slow=not isinstance(schedule, ClusterSchedule),
            remarks=outcome.remarks,
        )

    @property
    def name(self) -> str:
        """Its allocator and its scheduler."""
        return self.allocator if self.is_recorded else f"{self.allocator} under {self.scheduler}"

    @property
    def changes_percent(self) -> tuple[float | None, ...]:
        """Changes of wait, slowdown and hop cost in per cent."""
        changes = (self.mean_wait_change, self.mean_bounded_slowdown_change, self.mean_hop_cost_change)
        return tuple(None if change is None else 100.0 * change for change in changes)

    @property
    def leaf_fragmentation(self) -> float | None:
        """Fragmentation of the idle nodes over leaves; None where there are none."""
        return self.fragmentation[0] if self.fragmentation else None

    @property
    def is_recorded(self) -> bool:
        """Whether it is what the site did, not a simulation."""
        return self.allocator == RECORDED

    @classmethod
    def stored(cls, held: Mapping[str, Any]) -> "WhatIfRow":
        """Return the row of its fields as JSON holds them."""
        fields: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in held.items()}
        return cls(**fields)

    def beside(self, first: "WhatIfRow") -> "WhatIfRow":
        """Return the row with its changes relative to the first one; what was recorded has none."""
        if self.is_recorded:
            return self
        return replace(
            self,
            mean_wait_change=_change(self.mean_wait_s, first.mean_wait_s),
            mean_bounded_slowdown_change=_change(self.mean_bounded_slowdown, first.mean_bounded_slowdown),
            mean_hop_cost_change=_change(self.mean_hop_cost, first.mean_hop_cost),
            mean_wait_interval=self._interval(first, _JOBS, _WAIT),
            mean_bounded_slowdown_interval=self._interval(first, _JOBS, _SLOWDOWN),
            mean_hop_cost_interval=self._interval(first, _HOP_JOBS, _HOP_COST),
        )

    def _interval(self, first: "WhatIfRow", count: int, total: int) -> tuple[float, ...]:
        # The change of a ratio of totals over blocks, by linearization of its logarithm and Student's t (Cochran,
        # "Sampling Techniques", 1977, chapter 6): jobs of a week are alike, so that weeks are the sample, not jobs.
        own, other = (np.array(row.blocks).reshape(-1, 5) for row in (self, first))
        if own.shape != other.shape or (counted := (own[:, count] > 0).sum()) < _FEWEST_BLOCKS:
            return ()
        (n, x), (first_n, first_x) = own[:, [count, total]].T, other[:, [count, total]].T
        if not x.sum() or not first_x.sum():
            return ()
        from scipy.special import stdtrit

        errors = x / x.sum() - n / n.sum() - first_x / first_x.sum() + first_n / first_n.sum()
        half = stdtrit(counted - 1, (1 + _CONFIDENCE) / 2) * np.sqrt(counted / (counted - 1) * (errors**2).sum())
        ratio = x.sum() / n.sum() * first_n.sum() / first_x.sum()
        return float(ratio * np.exp(-half) - 1.0), float(ratio * np.exp(half) - 1.0)


def baseline(rows: Sequence[WhatIfRow]) -> WhatIfRow:
    """Return what others are compared with: the first of some rows that is simulated, or the first."""
    return next((row for row in rows if not row.is_recorded), rows[0])


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
    for title, measure, change, written in (
        ("shortest mean wait", "mean_wait_s", "mean_wait", "{:,.0f} s"),
        ("least slowdown", "mean_bounded_slowdown", "mean_bounded_slowdown", "{:,.2f}"),
        ("lowest hop cost", "mean_hop_cost", "mean_hop_cost", "{:,.0f}"),
    ):
        if overloaded and measure != "mean_hop_cost":
            lines.append(f"{title}: no verdict: waits grow with the length of the trace")
            continue
        known = [(getattr(row, measure), row) for row in simulated if getattr(row, measure) is not None]
        if not known:
            lines.append(f"{title}: no job has several nodes")
            continue
        least = min(value for value, _ in known)
        # What is written alike is a tie: nobody is best by a fraction of a second, or of a hop.
        best = [row for value, row in known if written.format(value) == written.format(least)]
        shown = "" if first in best else _shown_change(best[0], change)
        lines.append(f"{title}: {_named(best, [row for _, row in known])}, {written.format(least)}{shown}")
    waits: dict[str, set[float]] = {}
    for row in simulated:
        waits.setdefault(row.scheduler, set()).add(row.mean_wait_s)
    if first.hops_slow and len(simulated) > len(waits) and all(len(different) == 1 for different in waits.values()):
        lines.append("waits are the allocators' only where hops slow jobs down: --hop-slowdown 0.2")
    has_intervals = any(line.endswith("])") for line in lines)
    lines.append(f"+/- beside {first.name}; waits and slowdowns are means over {first.jobs:,} jobs")
    if first.hop_jobs:
        lines.append(f"hop cost: {HOP_COST:,.0f} a hop from a node of a job to each other one")
        lines.append(f"hop costs are means over {first.hop_jobs:,} of {first.jobs:,} jobs, those of several nodes")
    if has_intervals:
        unit = "weeks" if first.block_days == _WEEK else "days"
        lines.append(f"in [ ]: {100 * _CONFIDENCE:.0f} % intervals by {len(first.blocks):,} {unit}")
    elif 0 < len(first.blocks) < _FEWEST_BLOCKS and len(simulated) > 1:
        lines.append(f"fewer than {_FEWEST_BLOCKS} days: whether differences are chance is not known")
    return lines


def _named(best: Sequence[WhatIfRow], known: Sequence[WhatIfRow]) -> str:
    if len(best) == len(known):
        return "all the same"
    if len(best) == 1:
        return best[0].name
    if best == [row for row in known if row.scheduler == best[0].scheduler]:
        return f"{best[0].scheduler} with any allocator"
    return f"tie of {best[0].name} and {best[1].name if len(best) == 2 else f'{len(best) - 1} more'}"


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
        ("mean wait", _change(first.mean_wait_s, record.mean_wait_s)),
        ("slowdown", _change(first.mean_bounded_slowdown, record.mean_bounded_slowdown)),
        ("hop cost", _change(first.mean_hop_cost, record.mean_hop_cost)),
    )
    known = [f"{name} {100 * change:+,.1f} %" for name, change in apart if change is not None]
    if apart[-1][1] is not None and record.hop_jobs not in (None, first.hop_jobs):
        known[-1] += f" (of {first.hop_jobs:,} jobs, not {record.hop_jobs:,})"
    lines.append(f"{first.name} beside the record: {', '.join([*known, f'utilization {points:+.1f} points'])}")
    return [*lines, *record.remarks]


def _shown_change(row: WhatIfRow, measure: str) -> str:
    change, interval = getattr(row, f"{measure}_change"), getattr(row, f"{measure}_interval")
    if change is None:
        return ""
    signed = f"{100 * change:+.1f}"
    # What is rounded to zero has no sign.
    signed = f"{signed if float(signed) else '0.0'} %"
    if not interval:
        return f" ({signed})"
    low, high = interval
    doubt = ", not distinguishable" if low <= 0 <= high else ""
    return f" ({signed}{doubt} [{100 * low:+.1f}, {100 * high:+.1f}])"


def _change(value: float | None, first: float | None) -> float | None:
    """Change relative to the first; None where there is nothing to compare with."""
    if value is None or not first:
        return None
    return value / first - 1.0
