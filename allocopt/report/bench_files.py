"""Files of a comparison: a row per solve, with versions, seed and commit."""

import json
from collections.abc import Sequence
from pathlib import Path

from allocopt.errors import UsageError
from allocopt.files.csv_rows import csv_text
from allocopt.files.writing import write_text
from allocopt.report.provenance import Provenance
from allocopt.report.rows import BenchRow


def check_suffix(path: Path) -> None:
    """Raise `UsageError` unless the file is to be CSV or JSON."""
    if path.suffix not in (".csv", ".json"):
        raise UsageError(f"{path} must end in .csv or .json")


def write_rows(path: Path, rows: Sequence[BenchRow], facts: Provenance) -> None:
    """Write the rows, each with the facts, as CSV or JSON by the suffix."""
    check_suffix(path)
    records = [{**row.as_dict(), **facts.as_dict()} for row in rows]
    if path.suffix == ".json":
        write_text(path, json.dumps(records, indent=1, allow_nan=False) + "\n")
        return
    write_text(path, csv_text(list(records[0]), [list(record.values()) for record in records]) if records else "")
