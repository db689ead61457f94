"""Which days of a trace are trained on, which are validated on, and which are held out.

A split is of days since the trace's first midnight, time 0. Held-out days belong to evaluations alone: neither jobsets
nor fitted models see them.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from allocopt.arrays import IntArray
from allocopt.errors import UsageError
from allocopt.traces.precedence import without_lost
from allocopt.traces.workload import Workload

DAY_S = 86_400.0
WEEK_DAYS = 7
HELD_OUT_SHARE = 0.2
"""Share of a trace of unknown name that is held out, at its end."""


class HeldOut(Protocol):
    """Says which days of a trace are held out."""

    def is_held_out(self, day: int, n_days: int) -> bool:
        """Whether a day, counted from 0, of a trace of so many days is held out."""


@dataclass(frozen=True, slots=True)
class HeldOutDays:
    """Days from ``first`` on and before ``end``, counted from 0."""

    first: int
    end: int

    def is_held_out(self, day: int, n_days: int) -> bool:
        """Whether the day is among them."""
        return self.first <= day < self.end


@dataclass(frozen=True, slots=True)
class HeldOutEnd:
    """The last days, by their share of the whole, begun at a whole week."""

    share: float = HELD_OUT_SHARE

    def is_held_out(self, day: int, n_days: int) -> bool:
        """Whether the day is among them."""
        return day >= int(n_days * (1 - self.share)) // WEEK_DAYS * WEEK_DAYS


KNOWN: dict[str, HeldOut] = {"Theta-2018-01": HeldOutDays(7, 14)}
"""Traces by the beginning of their names: days 8 to 14 of the Theta trace, its busiest week."""


def held_out_of(name: str) -> HeldOut:
    """Return what is held out of the trace of that name: its last fifth, where nothing else is known."""
    for known, days in KNOWN.items():
        if name.startswith(known):
            return days
    return HeldOutEnd()


def cut(workload: Workload, chosen: IntArray, begin_s: float, name: str) -> Workload:
    """Return some jobs of a workload, submitted as long after ``begin_s`` as they were."""
    preceding, think_s, _ = without_lost(workload.ids[chosen], workload.preceding[chosen], workload.think_s[chosen])
    return replace(
        workload,
        name=name,
        ids=workload.ids[chosen],
        submit=workload.submit[chosen] - begin_s,
        run=workload.run[chosen],
        processors=workload.processors[chosen],
        estimate=workload.estimate[chosen],
        users=workload.users[chosen],
        executables=workload.executables[chosen],
        preceding=preceding,
        think_s=think_s,
    )


@dataclass(frozen=True, slots=True)
class Split:
    """A trace and what of it is held out.

    Parameters
    ----------
    workload
        The whole trace.
    held_out
        Its held-out days.
    """

    workload: Workload
    held_out: HeldOut

    @property
    def days(self) -> IntArray:
        """Day of every job, shape ``(n,)``."""
        return np.asarray(self.workload.submit // DAY_S, dtype=np.int64)

    @property
    def n_days(self) -> int:
        """Days of the trace."""
        return int(self.days.max()) + 1

    def spans(self, weeks: int = 1) -> tuple[Workload, ...]:
        """Spans of so many whole weeks of which no day is held out, one after the other, in the order of time.

        Those with few jobs, under a tenth of the usual number, are left out.

        Raises
        ------
        UsageError
            If there are none.
        """
        found = []
        length = weeks * WEEK_DAYS
        for first in range(0, self.n_days, length):
            days = range(first, min(first + length, self.n_days))
            chosen = np.flatnonzero((self.days >= first) & (self.days < first + length))
            if len(chosen) and not any(self.held_out.is_held_out(day, self.n_days) for day in days):
                found.append(cut(self.workload, chosen, first * DAY_S, f"{self.workload.name}, day {first + 1} on"))
        if not found:
            raise UsageError(f"{self.workload.name}: no whole span of {weeks} weeks is left to train on")
        usual = float(np.median([len(span) for span in found]))
        return tuple(span for span in found if len(span) >= usual / 10)

    def training(self) -> Workload:
        """Return all jobs of days that are not held out, at their times."""
        return self._part(held_out=False)

    def evaluation(self) -> Workload:
        """Return the jobs of the held-out days, at their times since the first of these days."""
        part = self._part(held_out=True)
        begin_s = float(part.submit.min() // DAY_S * DAY_S)
        return cut(part, np.arange(len(part)), begin_s, part.name)

    def _part(self, *, held_out: bool) -> Workload:
        """Return the jobs of held-out days, or the others."""
        days = self.days
        marks = np.array([self.held_out.is_held_out(day, self.n_days) for day in range(self.n_days)])
        chosen = np.flatnonzero(marks[days] == held_out)
        name = f"{self.workload.name}, {'held-out' if held_out else 'training'} days"
        return cut(self.workload, chosen, 0.0, name)


def split_of(workload: Workload) -> Split:
    """Return a trace with what its name says is held out."""
    return Split(workload, held_out_of(workload.name))
