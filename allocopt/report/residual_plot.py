"""A picture of a fit: measured over fitted values, and what is left over."""

from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.report.plot import Axis, Colours, Figure, Panel

_SUFFIXES = (".svg", ".png", ".pdf")


def write_residual_plot(path: Path, title: str, quantity: str, measured: FloatArray, predicted: FloatArray) -> None:
    """Draw measured against fitted values, and residuals against fitted values; the ending says the format.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    MissingPackageError
        If vl-convert is not installed.
    UsageError
        If the ending is of another format.
    """
    if path.suffix not in _SUFFIXES:
        raise UsageError(f"{path}: a plot's name ends in {', '.join(_SUFFIXES)}")
    ends = np.array([min(measured.min(), predicted.min()), max(measured.max(), predicted.max())])

    def draw(colours: Colours) -> list[Panel]:
        x = Axis.linear(ends, f"fitted {quantity}", is_tight=True)
        panels = []
        for y, values, ideal in (
            (f"measured {quantity}", measured, ends),
            ("residual", measured - predicted, np.zeros(2)),
        ):
            panel = Panel(colours, x, Axis.linear(np.append(values, ideal), y), 260)
            panel.line(7, ends, ideal, is_faint=True)
            panel.points(0, predicted, values)
            panels.append(panel)
        return panels

    Figure("residuals", title, f"Measured and fitted {quantity}.", draw).write(path)
