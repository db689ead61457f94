"""Learning curves: every measure over the updates, as it is and smoothed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.html.canvas import Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.figures.scales import dash
from allocopt.report.html.palette import LIGHT, colour
from allocopt.report.html.words import number, printable, shortened

SMOOTHED_SHARE = 0.05
MOST_POINTS = 500


@dataclass(frozen=True, slots=True, eq=False)
class LearningCurves:
    """Curves of one kind of training.

    Parameters
    ----------
    x
        The column over which they are drawn.
    measures
        The columns that are drawn.
    runs
        Columns by the name of the run.
    """

    x: str
    measures: tuple[str, ...]
    runs: Mapping[str, Mapping[str, FloatArray]]

    def figure(self) -> Figure:
        """Return the figure."""
        said = [
            f"{measure} of {name} goes from {number(_first(run[measure]))} to {number(_last(run[measure]))}"
            for name, run in self.runs.items()
            for measure in self.measures
        ]
        return Figure(
            "learning-curves",
            "Learning curves",
            f"Measures of training over {self.x}. {'; '.join(said[:12])}.",
            self.draw,
            "Faint: every update. Strong: mean over the last twentieth of the updates up to there.",
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw a panel per measure."""
        columns = 1 if canvas.is_narrow or len(self.measures) == 1 else 2
        rows = -(-len(self.measures) // columns)
        panels = canvas.panels(rows, columns, 0.4 + rows * (2.5 if len(self.measures) == 1 else 1.7))
        for index, axes in enumerate(panels):
            if index >= len(self.measures):
                axes.set_axis_off()
                continue
            self._panel(axes, self.measures[index])
            if index + columns < len(self.measures):
                axes.tick_params(labelbottom=False)
            else:
                axes.set_xlabel(printable(self.x.replace("_", " ")), parse_math=False)
        if len(self.runs) > 1:
            canvas.legend(4)

    def _panel(self, axes: Any, measure: str) -> None:
        """Draw one measure of all runs."""
        axes.set_title(printable(measure.replace("_", " ")), parse_math=False)
        axes.locator_params(nbins=5)
        axes.yaxis.set_major_formatter(lambda value, _: number(value))
        for index, (name, run) in enumerate(self.runs.items()):
            x, y = run[self.x], run[measure]
            every = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(int))
            shade = LIGHT[colour(index)]
            axes.plot(x[every], y[every], color=shade, alpha=0.3, linewidth=0.7)
            smooth = _smoothed(y)
            axes.plot(x[every], smooth[every], color=shade, linestyle=dash(index), label=shortened(name, 40))


def _smoothed(values: FloatArray) -> FloatArray:
    """Mean over the last values up to each, of those that are numbers."""
    span = max(1, round(SMOOTHED_SHARE * len(values)))
    known = np.isfinite(values)
    sums, counts = (np.concatenate(([0.0], np.cumsum(part))) for part in (np.where(known, values, 0.0), known))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - span, 0)
    return np.where(
        counts[last] > counts[first], (sums[last] - sums[first]) / np.maximum(counts[last] - counts[first], 1), np.nan
    )


def _first(values: FloatArray) -> float:
    """First value that is a number; 0 if none is."""
    known = values[np.isfinite(values)]
    return float(known[0]) if len(known) else 0.0


def _last(values: FloatArray) -> float:
    """Last smoothed value; 0 if none is a number."""
    return _first(_smoothed(values)[::-1])
