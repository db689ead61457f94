"""A journal lets a long run go on after a crash, and belongs to one run."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from allocopt.errors import BadFileError, UsageError
from allocopt.report.journal import Journal

SETTING = {"solvers": "a,b", "seeds": [0, 1]}


def fill(output: Path, **records: Any) -> None:
    with closing(Journal(output, SETTING)) as journal:
        for key, record in records.items():
            journal.add(key, record)


def kept(output: Path, setting: dict[str, Any] = SETTING) -> dict[str, Any]:
    with closing(Journal(output, setting)) as journal:
        return journal.records


def test_records_are_there_when_the_run_goes_on(tmp_path: Path) -> None:
    fill(tmp_path / "rows.csv", w0={"cost": 1.5})
    assert kept(tmp_path / "rows.csv") == {"w0": {"cost": 1.5}}
    fill(tmp_path / "rows.csv", w1={"cost": None})
    assert kept(tmp_path / "rows.csv") == {"w0": {"cost": 1.5}, "w1": {"cost": None}}


def test_the_journal_of_another_setting_is_refused_and_kept(tmp_path: Path) -> None:
    fill(tmp_path / "rows.csv", w0={"cost": 1.5})
    with pytest.raises(UsageError, match=r"rows\.csv\.partial is the journal of another run \(it differs in solvers\)"):
        Journal(tmp_path / "rows.csv", {**SETTING, "solvers": "a"})
    assert kept(tmp_path / "rows.csv") == {"w0": {"cost": 1.5}}


def test_a_run_that_came_to_nothing_is_in_nobodys_way(tmp_path: Path) -> None:
    Journal(tmp_path / "rows.csv", SETTING).close()
    assert kept(tmp_path / "rows.csv", {"solvers": "a"}) == {}


def test_a_second_run_is_refused_while_the_first_goes_on(tmp_path: Path) -> None:
    with (
        closing(Journal(tmp_path / "rows.csv", SETTING)),
        pytest.raises(UsageError, match=r"rows\.csv\.partial is in use: another run is writing it"),
    ):
        Journal(tmp_path / "rows.csv", SETTING)


@pytest.mark.parametrize(
    "text", ["my notes", "my notes\n", "\n", '{"solvers": "a,b"}\n', '{"format": "allocopt-run"}\n']
)
def test_what_is_no_journal_is_named_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.csv.partial"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError, match=r"rows\.csv\.partial: line 1: is not one of a run's journal; move the file"):
        Journal(tmp_path / "rows.csv", SETTING)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_line_that_a_crash_cut_is_dropped(tmp_path: Path, cut: int) -> None:
    fill(tmp_path / "rows.csv", w0={"cost": 1.5}, w1={"cost": 2})
    path = tmp_path / "rows.csv.partial"
    path.write_text(path.read_text(encoding="utf-8")[:-cut], encoding="utf-8")
    assert kept(tmp_path / "rows.csv") == {"w0": {"cost": 1.5}}
    fill(tmp_path / "rows.csv", w1={"cost": 3})
    assert kept(tmp_path / "rows.csv") == {"w0": {"cost": 1.5}, "w1": {"cost": 3}}


def test_it_is_gone_when_the_output_is_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out" / "rows.csv", SETTING)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["rows.csv.partial"]
    journal.remove()
    journal.close()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BadFileError, match="file"):
        Journal(tmp_path / "file" / "rows.csv", SETTING)


@pytest.mark.parametrize("line", ["not json", "\x00\x00", "[1]", '"ab"', '["w", 1]', '[["w"], {}]', "{}", "3"])
def test_a_line_that_is_no_record_is_named_and_the_journal_kept(tmp_path: Path, line: str) -> None:
    fill(tmp_path / "rows.csv", w0={"cost": 1.5})
    path = tmp_path / "rows.csv.partial"
    text = f"{path.read_text(encoding='utf-8')}{line}\n"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError, match=r"rows\.csv\.partial: line 3: is not a record; remove the file"):
        Journal(tmp_path / "rows.csv", SETTING)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("length", [0, 1, 5, 20])
def test_a_journal_whose_first_line_a_crash_cut_begins_anew(tmp_path: Path, length: int) -> None:
    fill(tmp_path / "rows.csv", w0={"cost": 1.5})
    path = tmp_path / "rows.csv.partial"
    path.write_bytes(path.read_bytes()[:length])
    fill(tmp_path / "rows.csv", w0={"cost": 2})
    assert kept(tmp_path / "rows.csv") == {"w0": {"cost": 2}}


def test_an_output_that_is_a_folder_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(BadFileError, match=r"rows\.csv: cannot be written: is a directory, must be a file"):
        Journal(tmp_path / "rows.csv", SETTING)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_a_journal_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.partial").mkdir()
    with pytest.raises(BadFileError, match=r"rows\.csv\.partial: .*Is a directory"):
        Journal(tmp_path / "rows.csv", SETTING)
