"""Learning curves: a row per update as CSV, and a plot of one measure."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.files.writing import write_text

Rows = Sequence[Mapping[str, float]]
WIDTH, HEIGHT, MARGIN = 640, 360, 56
N_TICKS = 5
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2")


def write_curve(folder: Path, rows: Rows, x: str, y: str, title: str) -> None:
    """Write ``curve.csv`` with all columns, and ``curve.svg`` with the smoothed y over x."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / "curve.csv", text.getvalue())
    xs, ys = (np.array([row[name] for row in rows]) for name in (x, y))
    write_text(folder / "curve.svg", line_plot(title, x, y, {"": (xs, smoothed(ys))}))


def smoothed(values: FloatArray, share: float = 0.02) -> FloatArray:
    """Return the moving average over the last values, a share of them all; what is not a number is left out."""
    span = max(1, round(share * len(values)))
    known = np.isfinite(values)
    sums, counts = (np.concatenate(([0.0], np.cumsum(part))) for part in (np.where(known, values, 0.0), known))
    first = np.maximum(np.arange(len(values)) + 1 - span, 0)
    last = np.arange(1, len(values) + 1)
    return np.asarray((sums[last] - sums[first]) / np.maximum(counts[last] - counts[first], 1))


def line_plot(title: str, x: str, y: str, lines: Mapping[str, tuple[FloatArray, FloatArray]]) -> str:
    """Draw lines by label as an SVG picture, each of two finite arrays of equal length."""
    every_x, every_y = (np.concatenate([line[axis] for line in lines.values()]) for axis in (0, 1))
    across, up = _Scale(every_x, MARGIN, WIDTH - MARGIN / 2), _Scale(every_y, HEIGHT - MARGIN, MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 24, title, "middle"),
        _text(WIDTH / 2, HEIGHT - 12, x, "middle"),
        _text(12, MARGIN - 16, y, "start"),
    ]
    for tick in across.ticks:
        parts.append(_text(across.at(tick), HEIGHT - MARGIN + 16, f"{tick:.3g}", "middle"))
    for tick in up.ticks:
        level = up.at(tick)
        parts.append(f'<path d="M{MARGIN} {level:.1f}H{WIDTH - MARGIN / 2}" stroke="#ddd"/>')
        parts.append(_text(MARGIN - 6, level + 4, f"{tick:.4g}", "end"))
    for index, (label, (xs, ys)) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(f"{across.at(a):.1f},{up.at(b):.1f}" for a, b in zip(xs, ys, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(_text(WIDTH - MARGIN, HEIGHT - MARGIN - 8 - 14 * index, label, "end", colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Scale:
    def __init__(self, values: FloatArray, first: float, last: float) -> None:
        self.low, self.high = float(values.min()), float(values.max())
        self.first = first
        self.factor = (last - first) / (self.high - self.low or 1.0)
        self.ticks = np.linspace(self.low, self.high, N_TICKS).tolist()

    def at(self, value: float) -> float:
        return self.first + self.factor * (float(value) - self.low)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'
