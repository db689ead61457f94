"""Combinations side by side as bars."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from allocopt.report.plot import Axis, Colours, Figure, Panel
from allocopt.report.words import EN_DASH


class Measure(NamedTuple):
    """Values of all combinations, None if missing; ``best`` is ``min`` or ``max``: whether low or high is better."""

    title: str
    values: tuple[float | None, ...]
    shown: Callable[[float], str]
    best: str = "min"


def bars_figure(title: str, labels: Sequence[str], measures: Sequence[Measure]) -> Figure:
    """Return a figure of bars, with a panel per measure that has values; the best bar of each has a stronger colour."""
    said = []
    for measure in measures:
        pairs = zip(labels, measure.values, strict=True)
        written = ", ".join(f"{label} {measure.shown(value)}" for label, value in pairs if value is not None)
        said.append(f"{measure.title}: {written}")

    def panel(measure: Measure, colours: Colours) -> Panel:
        known = [value for value in measure.values if value is not None]
        best = min(known) if measure.best == "min" else max(known)
        # If all values are equal, none is marked as the best.
        differ = max(known) > min(known) * (1 + 1e-3)
        are_best = [
            differ and value is not None and abs(value - best) <= 1e-9 * max(abs(best), 1e-9)
            for value in measure.values
        ]
        lengths = np.array([float(value or 0.0) for value in measure.values])
        written = [EN_DASH if value is None else measure.shown(value) for value in measure.values]
        most = float(max(lengths.max(), 1e-9))
        rows = np.arange(len(lengths))
        made = Panel(colours, Axis((0.0, 1.3 * most)), Axis.names(labels), 24.0 * len(labels), measure.title)
        boxes = np.stack((0 * lengths, rows + 0.16, np.maximum(lengths, 0.0), 0.68 + 0 * lengths), axis=1)
        titles = [f"{label}: {value}" for label, value in zip(labels, written, strict=True)]
        made.boxes(boxes, ["s5" if is_best else "s3" for is_best in are_best], titles)
        texts = zip((np.maximum(lengths, 0.0) + 0.015 * most).tolist(), (rows + 0.5).tolist(), written, strict=True)
        made.texts(texts, align="left", size=12)
        return made

    kept = [measure for measure in measures if any(value is not None for value in measure.values)]
    return Figure(
        "measures",
        title,
        f"{'. '.join(said)}.",
        lambda colours: [panel(measure, colours) for measure in kept],
        "The best value of each has the stronger colour.",
    )
