"""Measurements as CSV: columns of numbers by name, as ``allocopt calibrate`` reads them."""

import csv
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text


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
    reader = csv.DictReader(read_text(path).splitlines())
    there = reader.fieldnames or ()
    missing = [name for name in needed if name not in there]
    if missing:
        raise bad_file(path, "line 1", f"has no column {', '.join(missing)}; the columns are {', '.join(needed)}")
    names = [*needed, *(name for name in optional if name in there)]
    rows = []
    for row in reader:
        if None in row or None in row.values():
            raise bad_file(path, f"line {reader.line_num}", f"does not have {len(there)} columns as line 1")
        rows.append([_number(path, reader.line_num, name, row[name]) for name in names])
    if not rows:
        raise bad_file(path, "holds no measurements")
    return dict(zip(names, np.array(rows).T, strict=True))


def _number(path: Path, line: int, name: str, cell: str) -> float:
    """Read a cell."""
    try:
        number = float(cell)
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number >= 0):
        raise bad_file(path, f"line {line}", f"{name} is {shown(cell.strip())}, must be a number, not negative")
    return number
