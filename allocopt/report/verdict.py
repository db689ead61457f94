"""Verdicts: which of several results is best, by how much, and whether that may be chance, in one sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.plural import counted
from allocopt.report.words import number
from allocopt.traces.variants import CONFIDENCE

FEWEST_SAMPLES = 3
"""Smallest number of weeks, days, traces or instances for which there is an interval."""
_MOST_GROUPS = 2  # that a sentence names


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity by which results are compared, with its words: "shortest" with "shorter" and "longer".

    Two values are equal if they are written alike or, if there is a ``tolerance``, differ by at most this share of the
    best one.
    """

    name: str
    best: str
    better: str
    worse: str
    written: Callable[[float], str] = number
    is_maximized: bool = False
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the results: its name, its value, and its change relative to the first one.

    A change of 0.1 is 10 % more. The interval (from, to) is its 95 % confidence interval, empty if it is not known.
    ``family`` names all results of which this is one if these are equal, such as all allocators of a scheduler.
    """

    name: str
    value: float
    change: float | None = None
    interval: tuple[float, ...] = ()
    family: str = ""

    @property
    def may_be_chance(self) -> bool:
        """Whether the interval of the change is known, and includes 0."""
        return bool(self.interval) and self.interval[0] <= 0 <= self.interval[1]

    @property
    def direction(self) -> int:
        """Return -1 if it is less than the first one, 1 if it is more, 0 if it is equal or this may be chance."""
        if self.change is None or self.may_be_chance:
            return 0
        return int(np.sign(round(self.change, 3)))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results compared by a quantity with the first one, of all jobs and of groups of jobs.

    ``noun`` is the plural for the results. ``groups`` has the results of each group whose difference can be judged.
    ``no_interval`` states why there are no intervals, if there are none.
    """

    quantity: Quantity
    results: Sequence[Compared]
    noun: str
    groups: Mapping[str, Sequence[Compared]] = field(default_factory=dict)
    no_interval: str = ""

    @property
    def best(self) -> list[Compared]:
        """The best result, and those equal to it."""
        quantity, values = self.quantity, [result.value for result in self.results]
        best = max(values) if quantity.is_maximized else min(values)

        def is_equal(value: float) -> bool:
            if quantity.tolerance is not None:
                return abs(value - best) <= quantity.tolerance * max(1e-9, abs(best))
            return quantity.written(value) == quantity.written(best)

        return [result for result in self.results if is_equal(result.value)]

    @property
    def named(self) -> str:
        """Names of the best results."""
        best = self.best
        if len(best) == 1:
            return best[0].name
        if (family := best[0].family) and best == [result for result in self.results if result.family == family]:
            return family
        others = best[1].name if len(best) == 2 else f"{len(best) - 1} more"
        return f"{best[0].name} and {others}"

    def sentence(self, scope: str | None = None) -> str:
        """Return the verdict. The scope, by default the number of results, follows the name of the quantity."""
        quantity, first, best = self.quantity, self.results[0], self.best
        value = quantity.written(best[0].value)
        count = f"{len(self.results)} {self.noun}"
        if len(self.results) == 1:
            return f"{first.name}: {quantity.name} {value}; there is nothing to compare it with."
        if len(best) == len(self.results):
            return f"All {count} have the same {quantity.name}, {value}."
        scope = f" of {count}" if scope is None else scope
        # A family, such as a scheduler with any allocator, is one subject; "a and b" are several.
        verb = "has" if len(best) == 1 or self.named == best[0].family else "have"
        begin = f"{self.named} {verb} the {quantity.best} {quantity.name}{scope}, {value}"
        if first in best:
            rest = [result for result in self.results if result not in best]
            judged = (max if quantity.is_maximized else min)(rest, key=lambda result: result.value)
            known = f"{begin}; {judged.name} is next, {self._difference(judged, '')}"
        else:
            judged = best[0]
            known = f"{begin}, {self._difference(judged, f' than {first.name}')}"
        return f"{known}{self._exceptions(judged)}."

    def _difference(self, result: Compared, than: str) -> str:
        if result.change is None:
            # Relative to 0 there is no percentage.
            return f"{self.quantity.written(result.value)} instead of {self._written_first}"
        size = f"{100 * abs(result.change):,.1f} % {self._way(result.change)}{than}"
        if not result.interval:
            return f"{size} (no 95 % interval{': ' if self.no_interval else ''}{self.no_interval})"
        low, high = (f"{100 * end:+,.1f}" for end in result.interval)
        if result.may_be_chance:
            return f"{size}, which may be chance (95 % interval {low} to {high} %, includes 0)"
        return f"{size} (95 % interval {low} to {high} %, excludes 0)"

    @property
    def _written_first(self) -> str:
        return self.quantity.written(self.results[0].value)

    def _way(self, change: float) -> str:
        return self.quantity.better if (change > 0) is self.quantity.is_maximized else self.quantity.worse

    def _exceptions(self, judged: Compared) -> str:
        """Return the clause on groups in which the difference is clear, and not that over all jobs."""
        odd = {
            title: each
            for title, results in self.groups.items()
            for each in results
            if each.name == judged.name and each.direction not in (0, judged.direction)
        }
        parts = []
        for direction in sorted({each.direction for each in odd.values()}):
            own = {title: each for title, each in odd.items() if each.direction == direction}
            listed = [
                f"{title} ({100 * (each.change or 0.0):+,.1f} %)" for title, each in list(own.items())[:_MOST_GROUPS]
            ]
            if left := len(own) - len(listed):
                listed.append(counted(left, "more group"))
            has_intervals = all(each.interval for each in own.values())
            names = " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))
            parts.append(f"{'clearly ' if has_intervals else ''}{self._way(direction)} for {names}")
        return f"; but it is {' and '.join(parts)}" if parts else ""


def change_of(value: float | None, first: float | None) -> float | None:
    """Return the change relative to the first value; None if one is missing or the first is 0."""
    if value is None or not first:
        return None
    return value / first - 1.0


def change_interval(own: FloatArray, first: FloatArray) -> tuple[float, ...]:
    """Return the 95 % interval (from, to) of the change of a mean relative to another one.

    Each sample, such as a week, has a row with the number of its values and their sum, for both means. The interval is
    empty if fewer than three samples have values, or a mean is not positive.
    """
    # The change of a ratio of totals, by linearization of its logarithm and Student's t (Cochran, "Sampling
    # Techniques", 1977, chapter 6).
    if own.shape != first.shape or (counted := int((own[:, 0] > 0).sum())) < FEWEST_SAMPLES:
        return ()
    (n, x), (first_n, first_x) = own.T, first.T
    if not x.sum() > 0 or not first_x.sum() > 0:
        return ()
    from scipy.special import stdtrit

    errors = x / x.sum() - n / n.sum() - first_x / first_x.sum() + first_n / first_n.sum()
    half = stdtrit(counted - 1, (1 + CONFIDENCE) / 2) * np.sqrt(counted / (counted - 1) * (errors**2).sum())
    ratio = x.sum() / n.sum() * first_n.sum() / first_x.sum()
    return float(ratio * np.exp(-half) - 1.0), float(ratio * np.exp(half) - 1.0)


def compared_means(samples: Mapping[str, FloatArray]) -> list[Compared]:
    """Return results by name with their changes and intervals; see `change_interval` for the samples of each."""
    means = {name: float(rows[:, 1].sum() / rows[:, 0].sum()) for name, rows in samples.items()}
    (first, rows_of_first), *_ = samples.items()
    return [
        Compared(name, means[name], change_of(means[name], means[first]), change_interval(rows, rows_of_first))
        for name, rows in samples.items()
    ]
