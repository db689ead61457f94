"""Combinations by groups of jobs: rows, and a table and a verdict for each group."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from allocopt.report.combination import MEASURES, BlockSums, Combination, Measure, baseline, best_by
from allocopt.report.words import Cell, aligned_table, filled, shortened
from allocopt.simulator.described import Described
from allocopt.simulator.groups import GROUPINGS, UNKNOWN, Grouping, overloaded_jobs
from allocopt.simulator.what_if import Outcome

HEADER = ("scheduler", "allocator", "wait s", "+/- %", "slowdown", "hop cost", "+/- %")
DIGITS = (None, None, 0, 1, 2, 0, 1)
FEWEST_JOBS = 30
"""Smallest number of jobs for which a group gets a verdict."""
MOST_SHOWN = 8
"""Largest number of groups of a grouping that are shown; rows have all."""


@dataclass(frozen=True, slots=True)
class GroupRow(Combination):
    """One combination of allocator and scheduler, over the jobs of a group; `WhatIfRow` has the same fields."""

    by: str
    group: str
    allocator: str
    scheduler: str
    jobs: int
    mean_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    mean_hop_cost: float | None
    waited_jobs: int
    hop_jobs: int
    is_overloaded: bool  # Whether most of its jobs are in queues that do not drain
    mean_wait_change: float | None = None
    mean_bounded_slowdown_change: float | None = None
    mean_hop_cost_change: float | None = None
    mean_wait_interval: tuple[float, ...] = ()
    mean_bounded_slowdown_interval: tuple[float, ...] = ()
    mean_hop_cost_interval: tuple[float, ...] = ()
    block_days: int | None = None
    blocks: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def all_of(cls, outcome: Outcome, described: Described, by: Sequence[str]) -> "list[GroupRow]":
        """Return the rows of all groups of an outcome under some groupings, without changes relative to others."""
        schedule, sums = outcome.schedule, BlockSums.of(*outcome.schedules)
        is_over = overloaded_jobs(schedule, described.partitions_of(schedule))
        rows = []
        for grouping in (GROUPINGS[name] for name in by):
            labels = described.labels_of(grouping, schedule)
            held = np.array(labels, dtype=np.object_)
            for label in grouping.ordered(labels):
                which = np.asarray(held == label)
                wait, slowdown, hop_cost = sums.means(which)
                rows.append(
                    cls(
                        by=grouping.name,
                        group=label,
                        allocator=outcome.allocator,
                        scheduler=outcome.scheduler,
                        jobs=int(which.sum()),
                        mean_wait_s=wait,
                        max_wait_s=float(np.mean([one.wait_s[which].max() for one in outcome.schedules])),
                        mean_bounded_slowdown=slowdown,
                        mean_hop_cost=hop_cost,
                        waited_jobs=int((schedule.wait_s[which] > 0).sum()),
                        hop_jobs=int(sums.has_several[which].sum()),
                        is_overloaded=bool(is_over[which].mean() > 0.5),
                        block_days=sums.days,
                        blocks=sums.sums(which),
                    )
                )
        return rows

    @classmethod
    def stored(cls, held: Mapping[str, Any]) -> "GroupRow":
        """Return a row from its fields as JSON holds them."""
        fields: dict[str, Any] = dict(held)
        for name, each in held.items():
            if isinstance(each, list):
                fields[name] = tuple(tuple(one) if isinstance(one, list) else one for one in each)
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of a group, one for each combination."""

    grouping: Grouping
    label: str
    rows: tuple[GroupRow, ...]

    @property
    def first(self) -> GroupRow:
        """The row with which others are compared."""
        return baseline(self.rows)

    @property
    def title(self) -> str:
        """Name of the group with its numbers of jobs."""
        first = self.first
        return (
            f"{self.grouping.title} {shortened(self.label)}: {first.jobs:,} jobs, {first.hop_jobs:,} with several nodes"
        )

    @property
    def simulated(self) -> tuple[GroupRow, ...]:
        """The rows without the record, if there are others."""
        return tuple(row for row in self.rows if not row.is_recorded) or self.rows

    def verdict(self) -> list[str]:
        """Return a line for each measure: the best combination, or why there is no verdict."""
        return [
            f"{measure.best}: {doubt}" if (doubt := self.doubt(measure)) else best_by(measure, self.simulated)
            for measure in MEASURES
        ]

    def best(self) -> str:
        """Return the names of the best combinations by each measure, or why there is no verdict."""
        parts = []
        for measure in MEASURES:
            comparison = measure.compared(self.simulated)
            if (doubt := self.doubt(measure)) or comparison is None:
                parts.append(f"{measure.best}: {doubt}")
            elif len(comparison.best) == len(comparison.results):
                parts.append(f"{measure.best}: all the same")
            else:
                parts.append(f"{measure.best} with {comparison.named}")
        return "; ".join(parts)

    def doubt(self, measure: Measure) -> str:
        """Return why there is no verdict on a measure; empty if there is one."""
        first = self.first
        jobs, noun = (first.hop_jobs, "jobs of several nodes") if measure.is_of_hops else (first.jobs, "jobs")
        if not jobs:
            return "no job has several nodes"
        if jobs < FEWEST_JOBS:
            return f"too few jobs for a verdict: {jobs} {noun}, fewer than {FEWEST_JOBS}"
        if not measure.is_of_hops and any(row.is_overloaded for row in self.simulated):
            return "no verdict: its queue does not drain; waits grow with the length of the trace"
        return ""


def beside_baselines(rows: Sequence[GroupRow], before: Sequence[GroupRow] = ()) -> list[GroupRow]:
    """Return rows with changes relative to the first combination of their group, which may be in ``before``."""
    firsts: dict[tuple[str, str], GroupRow] = {}
    for row in (*before, *rows):
        if not row.is_recorded:
            firsts.setdefault((row.by, row.group), row)
    return [row.beside(firsts.get((row.by, row.group), row)) for row in rows]


def groups_of(rows: Sequence[GroupRow]) -> list[Group]:
    """Return the groups of rows, ordered by grouping in order of appearance, by rank, and by jobs of the baseline."""
    held: dict[tuple[str, str], list[GroupRow]] = {}
    for row in beside_baselines(rows):
        held.setdefault((row.by, row.group), []).append(row)
    groupings = list(dict.fromkeys(by for by, _ in held))
    found = [Group(GROUPINGS[by], label, tuple(own)) for (by, label), own in held.items()]

    def place(group: Group) -> tuple[int, float, int, str]:
        own = group.grouping
        return groupings.index(own.name), own.rank(group.label), -group.first.jobs, group.label

    return sorted(found, key=place)


def judged_groups(rows: Sequence[GroupRow], measure: Measure) -> dict[str, tuple[GroupRow, ...]]:
    """Return the simulated rows of the shown groups that have a verdict on a measure, by name of the group."""
    return {
        f"{group.grouping.title} {shortened(group.label)}": group.simulated
        for group in shown_groups(groups_of(rows))
        if not group.doubt(measure)
    }


def groups_verdict(rows: Sequence[GroupRow]) -> list[str]:
    """Return a sentence on waits and one on hop costs: in how many groups which combination is best."""
    sentences = []
    for measure in (one for one in MEASURES if one.name != "mean_bounded_slowdown"):
        judged = judged_groups(rows, measure)
        found = [comparison for own in judged.values() if (comparison := measure.compared(own)) is not None]
        counts = Counter(one.named for one in found if len(one.best) < len(one.results))
        if not found:
            continue
        if counts:
            (best, count), *_ = counts.most_common(1)
            sentences.append(f"The {measure.best} is that of {best} in {count} of {len(found)} groups.")
        else:
            sentences.append(f"The {measure.quantity.name} is the same under all combinations in every group.")
    return sentences


def shown_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the first groups of each grouping, which tables show."""
    held: dict[str, list[Group]] = {}
    for group in groups:
        held.setdefault(group.grouping.name, []).append(group)
    return [group for own in held.values() for group in own[:MOST_SHOWN]]


def group_tables(rows: Sequence[GroupRow], width: int | None = None) -> str:
    """Return a table for each group with its verdict, in lines of at most ``width`` characters."""
    parts = []
    for grouping, own in groupby(groups_of(rows), key=lambda group: group.grouping):
        groups = list(own)
        if [group.label for group in groups] == [UNKNOWN]:
            parts.append(f"by {grouping.title}: the trace does not state it")
            continue
        parts += [_table(group, width) for group in groups[:MOST_SHOWN]]
        if left := groups[MOST_SHOWN:]:
            jobs = sum(group.first.jobs for group in left)
            parts.append(filled(f"by {grouping.title}: {len(left):,} more groups of {jobs:,} jobs (--out)", width))
    return "\n\n".join(parts)


def _table(group: Group, width: int | None) -> str:
    cells: list[list[Cell]] = []
    for row in group.rows:
        wait, _, cost = row.changes_percent
        scheduler = "" if row.is_recorded else row.scheduler
        cells.append(
            [scheduler, row.allocator, row.mean_wait_s, wait, row.mean_bounded_slowdown, row.mean_hop_cost, cost]
        )
    lines = [filled(line, width) for line in group.verdict()]
    return "\n".join((group.title, aligned_table(HEADER, cells, DIGITS, width), *lines))
