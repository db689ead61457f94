"""A picture of a fit: measured over fitted values, and what is left over."""

import io
from importlib import import_module
from pathlib import Path
from typing import Any

from allocopt.arrays import FloatArray
from allocopt.errors import MissingPackageError, UsageError
from allocopt.files.writing import write_bytes

SUFFIXES = (".svg", ".png", ".pdf")


def write_residual_plot(path: Path, title: str, quantity: str, measured: FloatArray, predicted: FloatArray) -> None:
    """Draw measured against fitted values, and residuals against fitted values.

    Parameters
    ----------
    path
        The file; its ending says the format.
    title, quantity
        Title, and what the values are.
    measured, predicted
        The values, shape ``(m,)``.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    MissingPackageError
        If matplotlib is not installed.
    UsageError
        If the ending is of another format.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path}: a plot's name ends in {', '.join(SUFFIXES)}")
    figure = _figure()
    left, right = figure.subplots(1, 2)
    figure.suptitle(title)
    ends = [float(min(measured.min(), predicted.min())), float(max(measured.max(), predicted.max()))]
    left.plot(ends, ends, color="0.7", linewidth=1)
    left.plot(predicted, measured, ".")
    left.set(xlabel=f"fitted {quantity}", ylabel=f"measured {quantity}")
    right.axhline(0.0, color="0.7", linewidth=1)
    right.plot(predicted, measured - predicted, ".")
    right.set(xlabel=f"fitted {quantity}", ylabel="residual")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:], metadata={"Date": None} if path.suffix == ".svg" else None)
    write_bytes(path, buffer.getvalue())


def _figure() -> Any:
    """Make an empty figure that needs no display."""
    try:
        module = import_module("matplotlib.figure")
    except ModuleNotFoundError:
        raise MissingPackageError("plots need matplotlib: pip install 'allocopt[plot]'") from None
    return module.Figure(figsize=(9, 4), layout="constrained")
