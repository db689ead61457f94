"""Rows of CSV files whose first line names the columns.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula. An apostrophe in front marks it
as text, so such a text is written with one, and read without it. Numbers are written unchanged.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import lines_of, read_text

_FORMULA = re.compile("'*[=+\\-@\t\r]")
_MARKED = re.compile("'+[=+\\-@\t\r]")


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a header and rows as CSV; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        cells = list(row)
        for place, cell in enumerate(cells):
            if isinstance(cell, str) and _FORMULA.match(cell):
                try:
                    float(cell)
                except ValueError:
                    cells[place] = f"'{cell}"
        writer.writerow(cells)
    return text.getvalue()


def read_cell(cell: str) -> str:
    """Return the text of a cell as it was before `csv_text` wrote it."""
    return cell[1:] if _MARKED.match(cell) else cell


def csv_rows(path: Path, needed: Sequence[str], noun: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield each row of a file after its place for messages, such as ``line 2``; messages call the rows ``noun``."""
    reader = csv.DictReader(lines_of(read_text(path)), skipinitialspace=True)
    try:
        there = list(reader.fieldnames or ())
        missing = [name for name in needed if name not in there]
        if missing:
            raise bad_file(
                path, "line 1", f"has no column {', '.join(missing)}; the columns of {noun} are {', '.join(needed)}"
            )
        for name in needed:
            if there.count(name) > 1:
                raise bad_file(path, "line 1", f"has the column {name} {there.count(name)} times")
        for row in reader:
            if None in row or None in row.values():
                raise bad_file(path, f"line {reader.line_num}", f"must have {len(there)} columns, as line 1 has")
            yield f"line {reader.line_num}", {name: read_cell(cell) for name, cell in row.items()}
    except csv.Error as error:
        raise bad_file(path, f"line {reader.line_num + 1}", f"is not CSV: {error}") from None
    if reader.line_num < 2:
        raise bad_file(path, f"holds no {noun}")


def number_at_least_0(path: Path, place: str, row: Mapping[str, str], name: str, noun: str) -> float:
    """Return the number in a cell; raise `BadFileError` unless it is finite and not negative."""
    try:
        number = float(row[name])
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number >= 0):
        raise bad_file(path, place, f"{name} is {shown(row[name].strip())}, must be {noun}, not negative")
    return number
