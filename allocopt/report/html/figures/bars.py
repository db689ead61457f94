"""Combinations side by side: a bar for each, a panel per measure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from allocopt.report.html.canvas import Canvas
from allocopt.report.html.palette import LIGHT
from allocopt.report.html.words import EN_DASH, shortened


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of every combination.

    Parameters
    ----------
    title
        What it is, with the unit.
    values
        One per combination; None where there is none.
    shown
        Writes a value.
    best
        Whether the least or the most is best, ``min`` or ``max``.
    """

    title: str
    values: tuple[float | None, ...]
    shown: Callable[[float], str]
    best: str = "min"

    def is_best(self, value: float | None) -> bool:
        """Whether no other value is better."""
        known = [each for each in self.values if each is not None]
        if value is None or max(known) <= min(known) * (1 + 1e-3):
            return False
        wanted = min(known) if self.best == "min" else max(known)
        return abs(value - wanted) <= 1e-9 * max(abs(wanted), 1e-9)


def draw_bars(canvas: Canvas, labels: Sequence[str], measures: Sequence[Measure]) -> None:
    """Draw a panel of bars per measure; the best bar is dark.

    Parameters
    ----------
    canvas
        Where.
    labels
        Names of the combinations.
    measures
        What to draw.
    """
    kept = [measure for measure in measures if any(value is not None for value in measure.values)]
    columns = 1 if canvas.is_narrow else min(2, len(kept))
    rows = -(-len(kept) // columns)
    panels = canvas.panels(rows, columns, rows * (0.55 + 0.24 * len(labels)))
    for index, (axes, measure) in enumerate(zip(panels, kept, strict=False)):
        _panel(axes, labels if index % columns == 0 else [""] * len(labels), measure)
    for axes in panels[len(kept) :]:
        axes.set_axis_off()


def _panel(axes: Any, labels: Sequence[str], measure: Measure) -> None:
    """Draw one measure."""
    lengths = [float(value or 0.0) for value in measure.values]
    roles = ["s5" if measure.is_best(value) else "s3" for value in measure.values]
    places = range(len(lengths))
    axes.barh(places, lengths, height=0.66, color=[LIGHT[role] for role in roles])
    axes.set_yticks(places, [shortened(label, 28) for label in labels])
    for text in axes.get_yticklabels():
        text.set_parse_math(False)
    axes.tick_params(axis="y", labelcolor=LIGHT["ink"])
    axes.invert_yaxis()
    axes.set_title(measure.title)
    axes.grid(visible=False)
    axes.spines.bottom.set_visible(False)
    axes.set_xticks([])
    axes.set_xlim(0.0, 1.28 * max(*lengths, 1e-9))
    for place, value in zip(places, measure.values, strict=True):
        shown = EN_DASH if value is None else measure.shown(value)
        axes.annotate(shown, (value or 0.0, place), (4, 0), textcoords="offset points", va="center", color=LIGHT["ink"])
