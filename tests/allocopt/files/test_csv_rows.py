"""Cells of CSV files: no spreadsheet takes a name for a formula, and what is written is read."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allocopt.files.csv_rows import csv_rows, csv_text
from allocopt.report.html.results import recognized

NAMES = st.text(st.sampled_from("=@+-'\t1a,\""), min_size=1, max_size=5)


@pytest.mark.parametrize("name", ["=1+1", "@SUM(A1)", "-x", "+x", "\tx", "=", "-", "-2+3", "'=x"])
def test_a_text_that_looks_like_a_formula_stands_behind_an_apostrophe(name: str) -> None:
    assert list(csv.reader(io.StringIO(csv_text(["name"], [[name]]))))[1] == [f"'{name}"]


@pytest.mark.parametrize("cell", [-1.5, -3, "-1.5", "+3", "-1e9", "a=b", "'x", "", None])
def test_numbers_and_other_texts_stay_what_they_are(cell: object) -> None:
    written = list(csv.reader(io.StringIO(csv_text(["it", "more"], [[cell, 1]]))))[1][0]
    assert written == ("" if cell is None else str(cell))


@given(NAMES)
@example("''=x")
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    header = ["instance", "kind", "strategy", "solver", "seed", "time_s", "objective", "bound"]
    path.write_text(csv_text(header, [[name, "topology", "free", "lns", 0, 1.0, -2.5, None]]), encoding="utf-8")
    ((_, row),) = csv_rows(path, header, "rows")
    (record,) = recognized(path).records
    assert (row["instance"], row["objective"]) == (name, "-2.5")
    assert record.values == row
