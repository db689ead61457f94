"""How waits and slowdowns are distributed over jobs: the share of the jobs at or below each value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.html.canvas import Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.figures.scales import dash, durations_across, per_cent_up
from allocopt.report.html.palette import LIGHT, colour
from allocopt.report.html.words import duration, percent, shortened

MOST_POINTS = 300


@dataclass(frozen=True, slots=True, eq=False)
class Distributions:
    """Waits and bounded slowdowns of jobs.

    Parameters
    ----------
    waits_s, slowdowns
        By the name of the schedule, an array over its jobs each.
    """

    waits_s: Mapping[str, FloatArray]
    slowdowns: Mapping[str, FloatArray]

    def figure(self) -> Figure:
        """Return the figure."""
        said = [
            f"{name}: half of the jobs wait at most {duration(float(np.median(waits)))}, "
            f"{percent(float((waits <= 0).mean()), 0)} not at all"
            for name, waits in self.waits_s.items()
        ]
        return Figure(
            "distributions",
            "Waits and slowdowns",
            f"Cumulative shares of jobs by wait and by bounded slowdown. {'. '.join(said)}.",
            self.draw,
            "Share of the jobs that wait, or are slowed down, at most so much. The higher a line, the better; where "
            "it begins, jobs do not wait at all. Waits under a second are drawn as one second.",
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw two panels."""
        shape = (2, 1, 4.4) if canvas.is_narrow else (1, 2, 2.9)
        waits, slowdowns = canvas.panels(*shape)
        longest = max(float(values.max()) for values in self.waits_s.values())
        durations_across(waits, longest, canvas.is_narrow)
        slowdowns.set_xscale("log")
        worst = max(float(values.max()) for values in self.slowdowns.values())
        slowdowns.set_xlim(1.0, max(worst * 1.1, 10.0))
        slowdowns.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        slowdowns.minorticks_off()
        for axes, title, held in ((waits, "Wait", self.waits_s), (slowdowns, "Bounded slowdown", self.slowdowns)):
            axes.set_title(title)
            per_cent_up(axes)
            _lines(axes, held)
        if len(self.waits_s) > 1:
            canvas.legend(4)


def _lines(axes: Any, held: Mapping[str, FloatArray]) -> None:
    """Draw the share at or below each value as steps, one line per schedule."""
    for index, (name, values) in enumerate(held.items()):
        x, y = _steps(np.maximum(values, 1.0))
        axes.step(x, y, where="post", color=LIGHT[colour(index)], linestyle=dash(index), label=shortened(name, 40))


def _steps(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distribution of values as a step function of few points."""
    ordered = np.sort(values)
    places = np.unique(np.linspace(0, len(ordered) - 1, MOST_POINTS).round().astype(int))
    shares = np.searchsorted(ordered, ordered[places], "right") / len(ordered)
    least = float((ordered <= 1.0).mean())
    return np.concatenate(([1.0], ordered[places])), np.concatenate(([least], shares))
