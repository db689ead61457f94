"""A journal lets a long run go on after a crash."""

from pathlib import Path

import pytest

from allocopt.errors import BadFileError
from allocopt.report.journal import Journal

SETTING = {"solvers": "a,b", "seeds": [0, 1]}


def test_records_are_there_when_the_run_goes_on(tmp_path: Path) -> None:
    Journal(tmp_path / "rows.csv", SETTING).add("w 0", {"cost": 1.5})
    journal = Journal(tmp_path / "rows.csv", SETTING)
    assert journal.records == {"w 0": {"cost": 1.5}}
    journal.add("w 1", {"cost": None})
    assert Journal(tmp_path / "rows.csv", SETTING).records == {"w 0": {"cost": 1.5}, "w 1": {"cost": None}}


def test_another_setting_begins_anew(tmp_path: Path) -> None:
    Journal(tmp_path / "rows.csv", SETTING).add("w 0", {"cost": 1.5})
    other = Journal(tmp_path / "rows.csv", {"solvers": "a"})
    assert other.records == {}
    other.add("w 1", {"cost": 2})
    assert Journal(tmp_path / "rows.csv", SETTING).records == {}


def test_another_setting_that_comes_to_nothing_leaves_what_there_was(tmp_path: Path) -> None:
    Journal(tmp_path / "rows.csv", SETTING).add("w 0", {"cost": 1.5})
    Journal(tmp_path / "rows.csv", {"solvers": "a"})
    assert Journal(tmp_path / "rows.csv", SETTING).records == {"w 0": {"cost": 1.5}}


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_line_that_a_crash_cut_is_dropped(tmp_path: Path, cut: int) -> None:
    first = Journal(tmp_path / "rows.csv", SETTING)
    first.add("w 0", {"cost": 1.5})
    first.add("w 1", {"cost": 2})
    path = tmp_path / "rows.csv.partial"
    path.write_text(path.read_text(encoding="utf-8")[:-cut], encoding="utf-8")
    again = Journal(tmp_path / "rows.csv", SETTING)
    assert again.records == {"w 0": {"cost": 1.5}}
    again.add("w 1", {"cost": 3})
    assert Journal(tmp_path / "rows.csv", SETTING).records == {"w 0": {"cost": 1.5}, "w 1": {"cost": 3}}


def test_it_is_gone_when_the_output_is_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out" / "rows.csv", SETTING)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["rows.csv.partial"]
    journal.close()
    journal.close()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BadFileError, match="file"):
        Journal(tmp_path / "file" / "rows.csv", SETTING)


@pytest.mark.parametrize("line", ["not json", "\x00\x00", "[1]", '"ab"', '["w", 1]', '[["w"], {}]', "{}", "3"])
def test_a_line_that_is_no_record_is_named_and_the_journal_kept(tmp_path: Path, line: str) -> None:
    Journal(tmp_path / "rows.csv", SETTING).add("w 0", {"cost": 1.5})
    path = tmp_path / "rows.csv.partial"
    text = f"{path.read_text(encoding='utf-8')}{line}\n"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError, match=r"rows\.csv\.partial: line 3: is not a record; remove the file"):
        Journal(tmp_path / "rows.csv", SETTING)
    assert path.read_text(encoding="utf-8") == text


def test_a_journal_without_a_whole_first_line_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.partial"
    for text in ("", '{"solvers"', "\n"):
        path.write_text(text, encoding="utf-8")
        Journal(tmp_path / "rows.csv", SETTING).add("w 0", {"cost": 1.5})
        assert Journal(tmp_path / "rows.csv", SETTING).records == {"w 0": {"cost": 1.5}}


def test_an_output_that_is_a_folder_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(BadFileError, match=r"rows\.csv: cannot be written: is a directory, must be a file"):
        Journal(tmp_path / "rows.csv", SETTING)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_a_journal_that_cannot_be_read_or_continued_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "rows.csv", SETTING)
    path = tmp_path / "rows.csv.partial"
    path.unlink()
    path.mkdir()
    with pytest.raises(BadFileError, match=r"rows\.csv\.partial: cannot be written: is a directory"):
        journal.add("w 0", {"cost": 1.5})
    with pytest.raises(BadFileError, match=r"rows\.csv\.partial: .*is a directory"):
        Journal(tmp_path / "rows.csv", SETTING)
