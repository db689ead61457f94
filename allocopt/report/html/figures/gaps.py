"""What solvers reach in which time: the distance to a yardstick over the running time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.html.canvas import Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.figures.scales import marker
from allocopt.report.html.palette import LIGHT, colour
from allocopt.report.html.words import shortened

LEAST_GAP = 0.01
"""Per cent below which the axis is linear."""
MOST_POINTS = 400


@dataclass(frozen=True, slots=True, eq=False)
class GapsOverTime:
    """Solves of several solvers.

    Parameters
    ----------
    yardstick
        What the gaps are to.
    times_s, gaps
        By the name of the solver: seconds, and per cent, of every solve.
    numbers
        By the name of the solver the number of its colour.
    """

    yardstick: str
    times_s: Mapping[str, FloatArray]
    gaps: Mapping[str, FloatArray]
    numbers: Mapping[str, int]

    def figure(self) -> Figure:
        """Return the figure."""
        said = [
            f"{name}: {self.gaps[name].mean():.3g} % in {np.median(self.times_s[name]):.3g} s" for name in self.times_s
        ]
        return Figure(
            "gap-over-time",
            f"Gap to {self.yardstick} against time",
            f"Gap to {self.yardstick} over running time; mean gap and median time of each solver. {'; '.join(said)}.",
            self.draw,
            "Small: one solve. Large: mean gap and median time. Down and left is better; the scale of gaps is "
            f"logarithmic above {LEAST_GAP} % and linear below.",
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw a point per solve and a large one per solver."""
        (axes,) = canvas.panels(1, 1, 3.4 + 0.1 * len(self.times_s) if canvas.is_narrow else 3.6)
        every = np.concatenate(list(self.gaps.values()))
        gap_scale(axes, float(every.min()), float(every.max()))
        for name in self.times_s:
            times, gaps = np.maximum(self.times_s[name], 1e-6), self.gaps[name]
            kept = np.unique(np.linspace(0, len(times) - 1, MOST_POINTS).round().astype(int))
            shade, shape = LIGHT[colour(self.numbers[name])], marker(self.numbers[name])
            axes.plot(times[kept], gaps[kept], shape, color=shade, markersize=3.2, alpha=0.35, markeredgewidth=0)
            axes.plot(
                [np.median(times)], [gaps.mean()], shape, color=shade, markersize=8.5, zorder=4,
                markeredgecolor=LIGHT["surface"], markeredgewidth=1.0, label=shortened(name, 36), linestyle="none",
            )  # fmt: skip
        time_scale(axes)
        canvas.legend(5)


def gap_scale(axes: Any, least: float, most: float) -> None:
    """Make the y axis one of gaps in per cent: linear up to `LEAST_GAP`, logarithmic above."""
    axes.set_yscale("symlog", linthresh=LEAST_GAP, linscale=0.6)
    axes.set_ylim(min(least, 0.0) * 1.3 - LEAST_GAP / 4, max(most * 1.6, LEAST_GAP))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.6g} %")


def time_scale(axes: Any) -> None:
    """Make the x axis one of running times, logarithmic."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: _seconds(value))
    axes.minorticks_off()
    axes.set_xlabel("running time")


def _seconds(value: float) -> str:
    """Write a tick of the time axis."""
    if value < 1e-3:
        return f"{1e6 * value:g} µs"
    return f"{1e3 * value:g} ms" if value < 1 else f"{value:g} s"
