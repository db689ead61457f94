"""Expert trees: tables of the probabilities of a guest's quotas by the state of the running job, read from files.

A table is a TOML file. ``actions`` are the quotas in percent, beginning with 0. Each of the ``experts`` has a
``metric`` and ``rows``. A row is a leaf: the ranges of the metric and of the happiness for which it is valid, and
``p``, the probability of each action there::

    actions = [0, 25, 50, 75]

    [[experts]]
    metric = "cpu"
    rows = [
        { cpu = [0.0, 0.75], happiness = [0.0, inf], p = [0.1, 0.3, 0.3, 0.3] },
        { cpu = [0.75, 1.0], happiness = [0.0, 1.1], p = [0.6, 0.3, 0.05, 0.05] },
        { cpu = [0.75, 1.0], happiness = [1.1, inf], p = [0.4, 0.3, 0.2, 0.1] },
    ]

A range includes its lower end; it includes its upper end only if this is the largest value of the metric. A stage is
given by its name. The rows of an expert must cover all values without overlapping.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_toml
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.traces.job_profile import StageKind

SHIPPED = "experts.toml"
SUM_TOLERANCE = 1e-6
STAGE, KINDS = "stage", list(StageKind)
METRICS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("cpu", "memory", "interval"), (0.0, 1.0)),
    STAGE: (0.0, float(len(KINDS))),
}
"""Metrics of experts, and their ranges; stages are numbered from 0, and stage k is the range from k to k + 1."""
HAPPINESS = (0.0, math.inf)
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class State:
    """State of a running job that experts see."""

    # Busy share of its cores, and occupied share of its memory, in [0, 1]
    cpu: float
    memory: float
    stage: StageKind  # The current stage
    interval: float  # Elapsed share of its duration, in [0, 1]
    happiness: float  # Time left until its limit / the time that it still needs (Eq. 1; errata)

    def value(self, metric: str) -> float:
        """Return the value of a metric, within its range."""
        low, high = METRICS[metric]
        value = KINDS.index(self.stage) if metric == STAGE else getattr(self, metric)
        return min(high, max(low, float(value)))


class _Leaf(NamedTuple):
    # A row of a table.
    condition: Range  # Range of the metric
    happiness: Range
    probabilities: tuple[float, ...]  # Probability of each action, summing to 1


@dataclass(frozen=True, slots=True)
class _Expert:
    # A tree: the leaf of a state holds the probability of each action.
    metric: str
    leaves: tuple[_Leaf, ...]  # Each state is in exactly one

    def leaf(self, state: State) -> _Leaf:
        value, most, happiness = state.value(self.metric), METRICS[self.metric][1], max(0.0, state.happiness)
        return next(
            leaf
            for leaf in self.leaves
            if (_within(leaf.condition, value) or leaf.condition[1] == value == most)
            and _within(leaf.happiness, happiness)
        )


@dataclass(frozen=True, slots=True)
class Experts:
    """The trees of a site."""

    actions: tuple[int, ...]  # Quotas of the guest in percent of the host's cores, rising from 0
    experts: tuple[_Expert, ...]  # One for each metric

    @classmethod
    def read(cls, path: Path | str | None = None) -> "Experts":
        """Read a table, by default that of the package; raises `BadFileError` with the faulty expert and row."""
        where = Path(str(files("allocopt.learned.asax").joinpath(SHIPPED))) if path is None else Path(path)
        return cls.of(read_toml(where), where)

    @classmethod
    def of(cls, held: Mapping[str, Any], where: Path | str) -> "Experts":
        """Make the experts of a table; see `read`."""
        actions, listed = held.get("actions"), held.get("experts")
        if not isinstance(actions, list) or not actions or not all(type(action) is int for action in actions):
            raise bad_file(where, "actions", f"is {shown(actions)}, must be a list of whole numbers, in percent")
        rises = all(before < after for before, after in pairwise(actions))
        if actions[0] != 0 or not rises or actions[-1] > LARGEST_PERCENT:
            raise bad_file(where, "actions", f"are {actions}, must rise from 0 to at most {LARGEST_PERCENT}")
        if not isinstance(listed, list) or not listed:
            raise bad_file(where, "experts", "is missing or empty, must hold at least one expert")
        experts = tuple(_expert(one, len(actions), f"experts[{index}]", where) for index, one in enumerate(listed))
        metrics = [expert.metric for expert in experts]
        for metric in metrics:
            if metrics.count(metric) > 1:
                raise bad_file(where, "experts", f"the metric {metric!r} has two experts")
        return cls(tuple(actions), experts)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of the experts, in their order."""
        return tuple(expert.metric for expert in self.experts)

    def leaves(self, state: State) -> tuple[_Leaf, ...]:
        """Return the leaf of a state in each expert's tree; states with the same leaves are equal to all experts."""
        return tuple(expert.leaf(state) for expert in self.experts)

    def probabilities(self, state: State) -> FloatArray:
        """Return the probabilities of the m actions by each of the n experts, shape ``(n, m)``; rows sum to 1."""
        table = np.array([leaf.probabilities for leaf in self.leaves(state)])
        return np.asarray(table / table.sum(axis=1, keepdims=True))


def _expert(held: Any, n_actions: int, place: str, where: Path | str) -> _Expert:
    metric = held.get("metric") if isinstance(held, dict) else None
    if not isinstance(metric, str) or metric not in METRICS:
        raise bad_file(where, f"{place}.metric", f"is {shown(metric)}, must be one of {', '.join(METRICS)}")
    rows, name = held.get("rows"), f"expert {metric!r}"
    if not isinstance(rows, list) or not rows:
        raise bad_file(where, name, "has no rows")
    leaves = tuple(_leaf(row, metric, n_actions, f"{name}, row {n}", where) for n, row in enumerate(rows, start=1))
    for low, high in _cells(METRICS[metric], [leaf.condition for leaf in leaves]):
        held_by = [leaf.happiness for leaf in leaves if _covers(leaf.condition, low, high)]
        for sad, happy in _cells(HAPPINESS, held_by):
            count = sum(_covers(happiness, sad, happy) for happiness in held_by)
            if count != 1:
                fault = "no row covers" if count == 0 else f"{count} rows cover"
                cell = KINDS[int(low)] if metric == STAGE else f"{low:g} .. {high:g}"
                raise bad_file(where, name, f"{fault} {metric} {cell}, happiness {sad:g} .. {happy:g}")
    return _Expert(metric, leaves)


def _leaf(row: Any, metric: str, n_actions: int, place: str, where: Path | str) -> _Leaf:
    if not isinstance(row, dict) or set(row) != {metric, "happiness", "p"}:
        raise bad_file(where, place, f"must have the keys {metric}, happiness and p")
    numbers = row["p"]
    if not _are_numbers(numbers, n_actions) or min(numbers) < 0:
        raise bad_file(where, place, f"p must hold {n_actions} numbers >= 0, one for each action")
    if abs(sum(numbers) - 1) > SUM_TOLERANCE:
        raise bad_file(where, place, f"p sums to {sum(numbers):g}, must sum to 1")
    ranges = {"happiness": HAPPINESS} if metric == STAGE else {metric: METRICS[metric], "happiness": HAPPINESS}
    for name, (low, high) in ranges.items():
        held = row[name]
        if not _are_numbers(held, 2) or not low <= held[0] < held[1] <= high:
            raise bad_file(where, place, f"{name} must be a range [low, high] within {low:g} .. {high:g}")
    condition, happiness = row[metric], row["happiness"]
    if metric == STAGE:
        if condition not in KINDS:
            raise bad_file(where, place, f"{STAGE} is {shown(condition)}, must be one of {', '.join(KINDS)}")
        condition = KINDS.index(condition), KINDS.index(condition) + 1
    low, high, sad, happy, *probabilities = map(float, (*condition, *happiness, *numbers))
    return _Leaf((low, high), (sad, happy), tuple(probabilities))


def _cells(limits: Range, ranges: list[Range]) -> Iterator[Range]:
    return pairwise(sorted({*limits, *(edge for one in ranges for edge in one)}))


def _covers(one: Range, low: float, high: float) -> bool:
    return one[0] <= low and high <= one[1]


def _within(one: Range, value: float) -> bool:
    # Ranges exclude their upper end, but a range up to infinity includes infinity.
    return one[0] <= value < one[1] or value == one[1] == math.inf


def _are_numbers(values: Any, count: int) -> bool:
    if not isinstance(values, list) or len(values) != count:
        return False
    return all(isinstance(value, int | float) and not math.isnan(value) for value in values)
