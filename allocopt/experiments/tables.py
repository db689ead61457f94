"""Tables of rows as CSV, JSON or lines of JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from allocopt.errors import UsageError
from allocopt.files.csv_rows import csv_text
from allocopt.files.writing import compact_json, write_text


def check_suffix(path: Path, *suffixes: str) -> None:
    """Raise `UsageError` unless the name of a table ends in one of some suffixes."""
    if path.suffix not in suffixes:
        raise UsageError(f"{path} must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}")


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as ``.csv``, ``.json`` or ``.jsonl``, beside the file, which is replaced when all is there."""
    if path.suffix == ".jsonl":
        text = "".join(f"{compact_json(row)}\n" for row in rows)
    elif path.suffix == ".json":
        text = json.dumps(list(rows), indent=1, allow_nan=False) + "\n"
    else:
        cells = [[compact_json(each) if isinstance(each, tuple) else each for each in row.values()] for row in rows]
        text = csv_text(list(rows[0]), cells) if rows else ""
    write_text(path, text)
