"""How solves come closer to a yardstick over time: their mean gap, and each gap behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.html.canvas import Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.figures.gaps import LEAST_GAP, gap_scale, time_scale
from allocopt.report.html.figures.scales import dash
from allocopt.report.html.palette import LIGHT, colour
from allocopt.report.html.words import shortened

MOST_LINES = 60
"""Solves of a solver beyond which only their mean is drawn."""
MOST_MOMENTS = 300


class Steps(NamedTuple):
    """The gap of a solve, in per cent, from each of some rising times in seconds on; before the first it has none."""

    times_s: FloatArray
    gaps: FloatArray

    def at(self, moments_s: FloatArray) -> FloatArray:
        """Return the gaps at some moments, NaN where there is none yet."""
        places = np.searchsorted(self.times_s, moments_s, side="right") - 1
        return np.where(places >= 0, self.gaps[np.maximum(places, 0)], np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class GapTrajectories:
    """Solves of several solvers, from the first incumbent to the end.

    Parameters
    ----------
    yardstick
        What the gaps are to.
    solves
        By the name of the solver, its solves.
    """

    yardstick: str
    solves: Mapping[str, Sequence[Steps]]

    def figure(self) -> Figure:
        """Return the figure."""
        ends = {name: float(np.mean([each.gaps[-1] for each in own])) for name, own in self.solves.items()}
        said = [f"{name} ends at {end:.3g} % on average" for name, end in ends.items()]
        return Figure(
            "gap-trajectories",
            f"Gap to {self.yardstick} over time",
            f"Mean gap to {self.yardstick} over running time. {'; '.join(said)}.",
            self.draw,
            "Strong: mean over the solves of a solver, from the moment on at which all have an answer. Faint: each "
            f"solve. The scale of gaps is logarithmic above {LEAST_GAP} % and linear below.",
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw a line per solver, and faint ones per solve."""
        (axes,) = canvas.panels(1, 1, 3.4 + 0.1 * len(self.solves) if canvas.is_narrow else 3.6)
        every = [each for own in self.solves.values() for each in own]
        first = max(min(float(each.times_s[0]) for each in every), 1e-6)
        last = max(float(each.times_s[-1]) for each in every)
        moments = np.geomspace(first, max(last, 1.01 * first), MOST_MOMENTS)
        for index, (name, own) in enumerate(self.solves.items()):
            self._lines(axes, index, name, own, moments)
        gaps = np.concatenate([each.gaps for each in every])
        gap_scale(axes, float(gaps.min()), float(gaps.max()))
        time_scale(axes)
        canvas.legend(5)

    def _lines(self, axes: Any, index: int, name: str, own: Sequence[Steps], moments: FloatArray) -> None:
        """Draw the lines of one solver."""
        shade = LIGHT[colour(index)]
        if 1 < len(own) <= MOST_LINES:
            for each in own:
                times, gaps = np.append(each.times_s, moments[-1]), np.append(each.gaps, each.gaps[-1])
                axes.step(np.maximum(times, moments[0]), gaps, where="post", color=shade, alpha=0.2, linewidth=0.6)
        # One solve without an answer yet has no gap, and so has the mean none.
        mean = np.mean([each.at(moments) for each in own], axis=0)
        axes.step(moments, mean, where="post", color=shade, linestyle=dash(index), label=shortened(name, 36))
