"""Learning curves: a row per update as CSV, and a plot of one measure."""

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from allocopt.errors import MissingPackageError
from allocopt.files.writing import write_text
from allocopt.report.plot import line_figure, smoothed

Rows = Sequence[Mapping[str, float]]


def write_curve(folder: Path, rows: Rows, x: str, y: str, title: str) -> None:
    """Write ``curve.csv`` with all columns, and, with `allocopt[plot]`, ``curve.svg`` with the smoothed y over x."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / "curve.csv", text.getvalue())
    xs, ys = (np.array([row[name] for row in rows]) for name in (x, y))
    # A training goes on where nothing draws.
    with suppress(MissingPackageError):
        line_figure(title, x, y, {y: (xs, smoothed(ys, 0.02))}).write(folder / "curve.svg")
