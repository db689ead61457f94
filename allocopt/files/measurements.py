"""Measurements as CSV: columns of numbers by name, as ``allocopt calibrate`` reads them."""

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.files.csv_rows import csv_rows
from allocopt.files.faults import bad_file, shown


def read_columns(path: Path | str, needed: Sequence[str], optional: Sequence[str] = ()) -> Mapping[str, FloatArray]:
    """Read columns of numbers, none of them negative; other columns are ignored.

    Parameters
    ----------
    path
        A CSV file whose first line names the columns; ``.gz`` is decompressed.
    needed
        Columns that must be there.
    optional
        Columns that are read if they are there.

    Raises
    ------
    BadFileError
        If the file cannot be read, a column is missing, or a cell is no number; it names line and column.
    """
    path = Path(path)
    columns: dict[str, list[float]] = {}
    for place, row in csv_rows(path, needed, "measurements"):
        for name in (*needed, *optional):
            if name in row:
                columns.setdefault(name, []).append(number_at_least_0(path, place, row, name, "a number"))
    return {name: np.array(values) for name, values in columns.items()}


def number_at_least_0(path: Path, place: str, row: Mapping[str, str], name: str, noun: str) -> float:
    """Read a cell that holds a finite number, not negative.

    Parameters
    ----------
    path, place
        The file and the line.
    row, name
        The row and the column.
    noun
        What the number is.

    Raises
    ------
    BadFileError
        If it is none.
    """
    try:
        number = float(row[name])
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number >= 0):
        raise bad_file(path, place, f"{name} is {shown(row[name].strip())}, must be {noun}, not negative")
    return number
