"""Files of a comparison."""

import csv
import json
from pathlib import Path

import pytest

from allocopt.errors import UsageError
from allocopt.report.bench_files import check_suffix, write_rows
from allocopt.report.provenance import Provenance
from allocopt.report.rows import BenchRow, SolveRow
from allocopt.solving.solution_files import BestKnown

FACTS = Provenance("0.1.0", "0123456789ab+", "3.11.7", "A, processor, 2 cores")
FREE = SolveRow("w", "topology", "free", "greedy", "FEASIBLE", 100.0, None, None, 0.25, 1)
SCAS = SolveRow("v", "topology", "scas", "dp", "OPTIMAL", 7.0, 7.0, 0.0, 0.5, 0)
ROWS = [BenchRow(FREE, "1", BestKnown(9.0, True)), BenchRow(SCAS, "2")]


def test_json_has_a_record_per_solve_with_versions_seed_and_commit(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.json", ROWS, FACTS)
    records = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert records == [{**row.as_dict(), **FACTS.as_dict()} for row in ROWS]
    assert records[0]["bound"] is None
    assert {"version", "commit", "python", "machine", "seed", "solver_version"} <= set(records[0])


def test_csv_has_the_same_with_empty_cells_for_what_is_not_there(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", ROWS, FACTS)
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    expected = [{**row.as_dict(), **FACTS.as_dict()} for row in ROWS]
    assert records == [
        {key: "" if value is None else str(value) for key, value in record.items()} for record in expected
    ]


@pytest.mark.parametrize("name", ["rows.json", "rows.csv"])
def test_a_comparison_without_solves_writes_a_file_without_rows(tmp_path: Path, name: str) -> None:
    write_rows(tmp_path / name, [], FACTS)
    assert (tmp_path / name).read_text(encoding="utf-8").strip() in ("", "[]")


@pytest.mark.parametrize("name", ["rows.txt", "rows", "rows.csv.gz"])
def test_another_suffix_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"must end in \.csv or \.json"):
        check_suffix(tmp_path / name)
    with pytest.raises(UsageError, match="must end in"):
        write_rows(tmp_path / name, ROWS, FACTS)
    assert list(tmp_path.iterdir()) == []
