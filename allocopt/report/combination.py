"""Combinations of allocator and scheduler compared with a first one: changes of means, intervals, and the best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.report.verdict import FEWEST_SAMPLES, Compared, Comparison, Quantity, change_interval, change_of
from allocopt.simulator.recorded import RECORDED
from allocopt.simulator.schedule import Schedule

# Columns of a block; see `BlockSums`.
_JOBS, _WAIT, _SLOWDOWN, _HOP_JOBS, _HOP_COST = range(5)
_DAY_S = 86_400.0
WEEK, FEWEST_WEEKS = 7, 4


@dataclass(frozen=True, slots=True)
class Measure:
    """A mean over jobs by which combinations are compared: its words, and its name in the fields of a combination."""

    quantity: Quantity
    name: str
    is_of_hops: bool = False

    @property
    def best(self) -> str:
        """Name of its best value."""
        return f"{self.quantity.best} {self.quantity.name}"

    @property
    def field(self) -> str:
        """The field of a combination that holds its value."""
        return self.name if self.is_of_hops or self.name.endswith("slowdown") else f"{self.name}_s"

    def compared(
        self, simulated: Sequence["Combination"], groups: Mapping[str, Sequence["Combination"]] = MappingProxyType({})
    ) -> Comparison | None:
        """Return combinations compared with the first, over all jobs and by group; None if none has a value."""
        results = self._results(simulated)
        if not results:
            return None
        judged = {title: self._results(rows) for title, rows in groups.items()}
        why = f"fewer than {FEWEST_SAMPLES} days of submissions"
        return Comparison(self.quantity, results, "combinations", judged, why)

    def _results(self, rows: Sequence["Combination"]) -> list[Compared]:
        return [
            Compared(
                row.name,
                value,
                getattr(row, f"{self.name}_change"),
                getattr(row, f"{self.name}_interval"),
                f"{row.scheduler} with any allocator",
            )
            for row in rows
            if (value := getattr(row, self.field)) is not None
        ]


WAIT = Quantity("mean wait", "shortest", "shorter", "longer", "{:,.0f} s".format)
SLOWDOWN = Quantity("slowdown", "least", "lower", "higher", "{:,.2f}".format)
HOP_COST = Quantity("hop cost", "lowest", "lower", "higher", "{:,.0f}".format)
MEASURES = (
    Measure(WAIT, "mean_wait"),
    Measure(SLOWDOWN, "mean_bounded_slowdown"),
    Measure(HOP_COST, "mean_hop_cost", is_of_hops=True),
)


@dataclass(frozen=True, slots=True, eq=False)
class BlockSums:
    """Measures of the jobs of a schedule, to be summed by blocks; a block is ``days`` days of submissions.

    ``block`` has the number of each job's block, shape ``(n,)``. ``weights`` has for each job 1, its wait in seconds,
    its bounded slowdown, 1 if it had several nodes, and its hop cost, shape ``(n, 5)``. For several schedules of the
    same jobs these are means.
    """

    days: int
    block: IntArray
    weights: FloatArray

    @classmethod
    def of(cls, *schedules: Schedule) -> "BlockSums":
        """Return the measures of all jobs; blocks are weeks, or days if the trace is shorter than four weeks."""
        days, block = blocks_of(schedules[0].workload.submit)
        return cls(days, block, np.mean([_weights(schedule) for schedule in schedules], axis=0))

    def means(self, which: BoolArray | slice = slice(None)) -> tuple[float, float, float | None]:
        """Return mean wait in seconds, mean bounded slowdown and mean hop cost of some jobs."""
        jobs, wait, slowdown, several, cost = self.weights[which].sum(axis=0).tolist()
        return wait / jobs, slowdown / jobs, cost / several if several else None

    @property
    def has_several(self) -> BoolArray:
        """Whether each job had several nodes, shape ``(n,)``."""
        return np.asarray(self.weights[:, _HOP_JOBS] > 0)

    def sums(self, which: BoolArray | slice = slice(None)) -> tuple[tuple[float, ...], ...]:
        """Return the sums over some jobs, for each block with at least one of them."""
        block, weights = self.block[which], self.weights[which]
        found = np.array([np.bincount(block, weight) for weight in weights.T]).T
        return tuple(map(tuple, found[found[:, _JOBS] > 0].tolist()))


def blocks_of(submit: FloatArray) -> tuple[int, IntArray]:
    """Return the days of a block and the number of each job's block, given the times of submission in seconds."""
    days = WEEK if float(np.ptp(submit)) >= FEWEST_WEEKS * WEEK * _DAY_S else 1
    return days, ((submit - submit.min()) // (days * _DAY_S)).astype(np.int64)


def _weights(schedule: Schedule) -> FloatArray:
    costs, times = schedule.hop_costs(), schedule.job_times
    several = np.zeros(len(times.wait_s), dtype=np.bool_) if costs is None else ~np.isnan(costs)
    known = several if costs is None else np.nan_to_num(costs)
    return np.stack([np.ones(len(several)), times.wait_s, times.bounded_slowdown, several, known], axis=1)


class Combination:
    """Base of rows of combinations; the dataclasses derived from it define the fields.

    Changes are relative to the first combination: 0.1 is 10 % more. They are None if its value is 0 or missing. Their
    intervals (from, to) are 95 % confidence intervals; they are empty if the trace has fewer than three blocks.
    """

    __slots__ = ()

    allocator: str
    scheduler: str
    jobs: int
    mean_wait_s: float
    mean_bounded_slowdown: float
    mean_hop_cost: float | None
    mean_wait_change: float | None
    mean_bounded_slowdown_change: float | None
    mean_hop_cost_change: float | None
    mean_wait_interval: tuple[float, ...]
    mean_bounded_slowdown_interval: tuple[float, ...]
    mean_hop_cost_interval: tuple[float, ...]
    hop_jobs: int | None
    block_days: int | None
    blocks: tuple[tuple[float, ...], ...]

    @property
    def name(self) -> str:
        """Allocator and scheduler."""
        return self.allocator if self.is_recorded else f"{self.allocator} under {self.scheduler}"

    @property
    def is_recorded(self) -> bool:
        """Whether the row is the site's record, not a simulation."""
        return self.allocator == RECORDED

    @property
    def changes_percent(self) -> tuple[float | None, ...]:
        """Changes of wait, slowdown and hop cost in per cent."""
        changes = (self.mean_wait_change, self.mean_bounded_slowdown_change, self.mean_hop_cost_change)
        return tuple(None if change is None else 100.0 * change for change in changes)

    def beside(self, first: "Combination") -> Self:
        """Return the row with its changes relative to the first one; the record has no changes."""
        if self.is_recorded:
            return self
        changed = replace(
            cast(Any, self),
            mean_wait_change=change_of(self.mean_wait_s, first.mean_wait_s),
            mean_bounded_slowdown_change=change_of(self.mean_bounded_slowdown, first.mean_bounded_slowdown),
            mean_hop_cost_change=change_of(self.mean_hop_cost, first.mean_hop_cost),
            mean_wait_interval=self._interval(first, _JOBS, _WAIT),
            mean_bounded_slowdown_interval=self._interval(first, _JOBS, _SLOWDOWN),
            mean_hop_cost_interval=self._interval(first, _HOP_JOBS, _HOP_COST),
        )
        return cast(Self, changed)

    def _interval(self, first: "Combination", count: int, total: int) -> tuple[float, ...]:
        # The sample are blocks, not jobs, because jobs of a week are alike.
        own, other = (np.array(row.blocks).reshape(-1, 5) for row in (self, first))
        if own.shape != other.shape:
            return ()
        return change_interval(own[:, [count, total]], other[:, [count, total]])


Row = TypeVar("Row", bound=Combination)


def baseline(rows: Sequence[Row]) -> Row:
    """Return the row with which others are compared: the first simulated one, or the first if none is simulated."""
    return next((row for row in rows if not row.is_recorded), rows[0])


def best_by(measure: Measure, simulated: Sequence[Combination]) -> str:
    """Return a line that names the best combinations by a measure, with their change relative to the first one."""
    comparison = measure.compared(simulated)
    if comparison is None:
        return f"{measure.best}: no job has several nodes"
    best, value = comparison.best, measure.quantity.written(comparison.best[0].value)
    if len(best) == len(comparison.results):
        named = "all the same"
    elif len(best) == 1 or comparison.named == best[0].family:
        named = comparison.named
    else:
        named = f"tie of {comparison.named}"
    change = "" if comparison.results[0] in best else _shown_change(best[0])
    return f"{measure.best}: {named}, {value}{change}"


def _shown_change(result: Compared) -> str:
    if result.change is None:
        return ""
    signed = f"{100 * result.change:+.1f}"
    # A value that is rounded to zero gets no sign.
    signed = f"{signed if float(signed) else '0.0'} %"
    if not result.interval:
        return f" ({signed})"
    low, high = result.interval
    doubt = ", not distinguishable" if result.may_be_chance else ""
    return f" ({signed}{doubt} [{100 * low:+.1f}, {100 * high:+.1f}])"
