"""Tables as CSV, JSON and lines of JSON."""

import csv
import json
from pathlib import Path

import pytest

from allocopt.errors import UsageError
from allocopt.report.rows import check_suffix, write_table

ROWS = [
    {"instance": "wä", "cost": 100.0, "bound": None, "parts": (0.25, None)},
    {"instance": "v", "cost": 7.0, "bound": 7.0, "parts": ()},
]


def test_csv_json_and_lines_of_json_have_a_record_per_row(tmp_path: Path) -> None:
    for suffix in ("csv", "json", "jsonl"):
        write_table(tmp_path / f"rows.{suffix}", ROWS)
    records = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert records == [{**row, "parts": list(row["parts"])} for row in ROWS]  # type: ignore[arg-type]
    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == records
    # What is not there is an empty cell.
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"instance": "wä", "cost": "100.0", "bound": "", "parts": "[0.25, null]"},
            {"instance": "v", "cost": "7.0", "bound": "7.0", "parts": "[]"},
        ]


@pytest.mark.parametrize(("name", "text"), [("rows.json", "[]\n"), ("rows.csv", ""), ("rows.jsonl", "")])
def test_a_table_without_rows_is_written(tmp_path: Path, name: str, text: str) -> None:
    write_table(tmp_path / name, [])
    assert (tmp_path / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["rows.txt", "rows", "rows.csv.gz"])
def test_another_suffix_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"must end in \.csv, \.json or \.jsonl"):
        check_suffix(Path(name), ".csv", ".json", ".jsonl")
