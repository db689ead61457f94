"""Rows of CSV files whose first line names the columns.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula. Texts that do are written behind
an apostrophe, as spreadsheets themselves mark texts, and read without it; numbers stay what they are.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allocopt.files.faults import bad_file
from allocopt.files.reading import lines_of, read_text

_FORMULA = re.compile("'*[=+\\-@\t\r]")
_MARKED = re.compile("'+[=+\\-@\t\r]")


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a header and rows as CSV; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(_written, row) for row in rows)
    return text.getvalue()


def read_cell(cell: str) -> str:
    """Return the text of a cell as it was before `csv_text` wrote it."""
    return cell[1:] if _MARKED.match(cell) else cell


def _written(cell: Any) -> Any:
    """Return a cell as it is written."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) and not _is_number(cell) else cell


def _is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def csv_rows(path: Path, needed: Sequence[str], noun: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the rows of a file, each with its place for messages, such as ``line 2``.

    Parameters
    ----------
    path
        The file; ``.gz`` is decompressed.
    needed
        Columns that must be there.
    noun
        What the rows are.

    Raises
    ------
    BadFileError
        If the file cannot be read, lacks a column or has it twice, or if a row has more or fewer cells than the first
        line, or there is none.
    """
    reader = csv.DictReader(lines_of(read_text(path)), skipinitialspace=True)
    try:
        yield from _checked(path, reader, needed, noun)
    except csv.Error as error:
        raise bad_file(path, f"line {reader.line_num + 1}", f"is not CSV: {error}") from None


def _checked(
    path: Path, reader: "csv.DictReader[str]", needed: Sequence[str], noun: str
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the rows that a reader finds, each with its place."""
    there = list(reader.fieldnames or ())
    missing = [name for name in needed if name not in there]
    if missing:
        raise bad_file(path, "line 1", f"has no column {', '.join(missing)}; the columns are {', '.join(needed)}")
    twice = [name for name in needed if there.count(name) > 1]
    if twice:
        raise bad_file(path, "line 1", f"has the column {twice[0]} {there.count(twice[0])} times")
    for row in reader:
        if None in row or None in row.values():
            raise bad_file(path, f"line {reader.line_num}", f"does not have {len(there)} columns as line 1")
        yield f"line {reader.line_num}", {name: read_cell(cell) for name, cell in row.items()}
    if reader.line_num < 2:
        raise bad_file(path, f"holds no {noun}")
