"""The table of a finished sweep."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from allocopt.errors import UsageError
from allocopt.files.csv_rows import csv_text
from allocopt.files.writing import compact_json, write_text

SUFFIXES = (".csv", ".jsonl")


def check_suffix(path: Path) -> None:
    """Raise `UsageError` unless the table is to be CSV or lines of JSON."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path} must end in {' or '.join(SUFFIXES)}")


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV or as lines of JSON, by the suffix; beside the file, which is replaced when all is there."""
    check_suffix(path)
    if path.suffix == ".jsonl":
        write_text(path, "".join(f"{compact_json(row)}\n" for row in rows))
        return
    write_text(path, csv_text(list(rows[0]), [list(row.values()) for row in rows]))
