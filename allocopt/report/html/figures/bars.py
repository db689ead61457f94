"""Combinations side by side as bars."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.report.plot import Axis, Colours, Figure, Panel
from allocopt.report.words import EN_DASH


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

    @staticmethod
    def figure(title: str, labels: Sequence[str], measures: "Sequence[Measure]") -> Figure:
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
