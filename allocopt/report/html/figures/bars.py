"""Combinations side by side as bars, and the numbers of a paper beside ours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.report.plot import Axis, Colours, Figure, Panel
from allocopt.report.words import EN_DASH, number
from allocopt.reproduction import ReproductionRow

_MOST_ROWS, _MOST_COLUMNS = 40, 6


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of every combination, None where there is none; ``best`` says whether least or most is, min or max."""

    title: str
    values: tuple[float | None, ...]
    shown: Callable[[float], str]
    best: str = "min"

    def is_best(self, value: float | None) -> bool:
        """Whether no other value is better; nothing is where all are the same."""
        known = [each for each in self.values if each is not None]
        if value is None or max(known) <= min(known) * (1 + 1e-3):
            return False
        wanted = min(known) if self.best == "min" else max(known)
        return abs(value - wanted) <= 1e-9 * max(abs(wanted), 1e-9)

    def panel(self, colours: Colours, labels: Sequence[str]) -> Panel:
        """Return a panel with a bar per combination; the best is dark."""
        lengths = np.array([float(value or 0.0) for value in self.values])
        written = [EN_DASH if value is None else self.shown(value) for value in self.values]
        most = float(max(lengths.max(), 1e-9))
        rows = np.arange(len(lengths))
        panel = Panel(colours, Axis((0.0, 1.3 * most)), Axis.names(labels), 24.0 * len(labels), self.title)
        boxes = np.stack((0 * lengths, rows + 0.16, np.maximum(lengths, 0.0), 0.68 + 0 * lengths), axis=1)
        titles = [f"{label}: {value}" for label, value in zip(labels, written, strict=True)]
        panel.boxes(boxes, ["s5" if self.is_best(value) else "s3" for value in self.values], titles)
        texts = zip(np.maximum(lengths, 0.0) + 0.015 * most, rows + 0.5, written, strict=True)
        panel.texts(((float(x), float(y), text) for x, y, text in texts), align="left", size=12)
        return panel


def bars_figure(title: str, labels: Sequence[str], measures: Sequence[Measure]) -> Figure:
    """Return a figure of bars, a panel per measure that has values."""
    kept = [measure for measure in measures if any(value is not None for value in measure.values)]
    said = []
    for measure in measures:
        pairs = zip(labels, measure.values, strict=True)
        written = ", ".join(f"{label} {measure.shown(value)}" for label, value in pairs if value is not None)
        said.append(f"{measure.title}: {written}")
    return Figure(
        "measures",
        title,
        f"{'. '.join(said)}.",
        lambda colours: [measure.panel(colours, labels) for measure in kept],
        "The best of each stands out.",
    )


def published_figure(rows: Sequence[ReproductionRow]) -> Figure | None:
    """Return the figure of numbers measured beside those that a paper prints; None if none was measured."""
    names = list(dict.fromkeys(row.column for row in rows if row.ours is not None))
    known = {row.column for row in rows if row.published is not None}
    # Columns that the paper has too come first, as there is no room for all.
    columns = sorted(names, key=lambda name: name not in known)[:_MOST_COLUMNS]
    if not columns:
        return None
    labels = list(dict.fromkeys(row.row for row in rows))[:_MOST_ROWS]
    said = [
        f"{row.row}, {row.column}: {number(row.ours)} beside {number(row.published)}"
        for row in rows
        if row.ours is not None and row.published is not None
    ]

    def draw(colours: Colours) -> list[Panel]:
        return [
            _published_panel(
                colours, column, labels, [row for row in rows if row.column == column and row.row in labels]
            )
            for column in columns
        ]

    return Figure(
        "published",
        "Ours beside the paper's",
        f"Values measured and published. {'; '.join(said[:15])}.",
        draw,
        "Filled: ours, with a standard deviation to either side where there are several runs. Hollow: the paper's.",
    )


def _published_panel(colours: Colours, title: str, labels: Sequence[str], rows: Sequence[ReproductionRow]) -> Panel:
    ours = [
        (labels.index(row.row) + 0.5, row.ours, abs(row.spread or 0.0), row) for row in rows if row.ours is not None
    ]
    theirs = [(labels.index(row.row) + 0.5, row.published) for row in rows if row.published is not None]
    ends = [value + sign * spread for _, value, spread, _ in ours for sign in (-1, 1)] + [value for _, value in theirs]
    panel = Panel(colours, Axis.linear(np.array(ends)), Axis.names(labels, 26), 24.0 * len(labels), title)
    panel.rules((row + 0.5 for row in range(len(labels))), "grid")
    spans = [(value - spread, place - 0.04, 2 * spread, 0.08) for place, value, spread, _ in ours if spread]
    panel.boxes(np.array(spans).reshape(-1, 4), ["c1"] * len(spans))
    said = [
        f"{row.row}: {number(row.ours or 0.0)}" + (f" ± {number(spread)}" if spread else "") for *_, spread, row in ours
    ]
    panel.points(0, np.array([value for _, value, *_ in ours]), np.array([place for place, *_ in ours]), said, size=4.5)
    places, values = np.array([place for place, _ in theirs]), np.array([value for _, value in theirs])
    published = [f"the paper's: {number(value)}" for _, value in theirs]
    hollow = {"fill": "transparent", "stroke": colours["ink"], "strokeWidth": 1.2}
    panel.points(0, values, places, published, size=6.5, **hollow)
    return panel
