"""Rows of CSV files whose first line names the columns."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from allocopt.files.faults import bad_file
from allocopt.files.reading import lines_of, read_text


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
        yield f"line {reader.line_num}", row
    if reader.line_num < 2:
        raise bad_file(path, f"holds no {noun}")
