"""The table of a finished sweep."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from allocopt.errors import UsageError
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
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())
