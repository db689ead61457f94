"""The journal: what is in it is not lost, wherever it is cut, and belongs to one process at a time."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.errors import BadFileError, UsageError
from allocopt.experiments.cells import digest
from allocopt.experiments.store import Store, journal_of

ME = {"version": "1", "commit": "a"}
OTHER = {"version": "1", "commit": "b"}
CELLS = [{"instance": "ä", "seed": seed} for seed in range(4)]


def fill(output: Path, count: int = len(CELLS), provenance: dict[str, str] = ME) -> None:
    store = Store(output, provenance)
    for cell in CELLS[:count]:
        store.add(digest(cell), cell, {**cell, "status": "done"})
    store.close()


def kept(output: Path) -> list[dict[str, object]]:
    store = Store(output, ME)
    store.close()
    return [held["cell"] for held in store.records.values()]


@given(st.data())
def test_a_journal_that_is_cut_anywhere_keeps_its_whole_lines_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    output = tmp_path_factory.mktemp("sweep") / "rows.csv"
    fill(output)
    journal = journal_of(output)
    whole = journal.read_bytes()
    length = data.draw(st.integers(0, len(whole)))
    journal.write_bytes(whole[:length])
    lines = whole[:length].count(b"\n")
    assert kept(output) == CELLS[: max(0, lines - 1)]
    assert journal.read_bytes() == b"".join(whole.splitlines(keepends=True)[:lines])
    fill(output)
    assert kept(output) == CELLS
    assert all(json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines())


def test_a_second_store_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    first = Store(tmp_path / "rows.csv", ME)
    with pytest.raises(UsageError, match=r"rows\.csv\.journal is in use: another run is writing it"):
        Store(tmp_path / "rows.csv", ME)
    first.close()
    Store(tmp_path / "rows.csv", ME).close()


def test_the_lock_outlives_the_dropping_of_cells(tmp_path: Path) -> None:
    fill(tmp_path / "rows.csv")
    store = Store(tmp_path / "rows.csv", ME)
    store.drop([digest(CELLS[1])])
    with pytest.raises(UsageError, match="in use"):
        Store(tmp_path / "rows.csv", ME)
    store.add(digest({"seed": 9}), {"seed": 9}, {"seed": 9})
    store.close()
    assert kept(tmp_path / "rows.csv") == [CELLS[0], CELLS[2], CELLS[3], {"seed": 9}]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv.journal"]


def test_who_computed_is_written_once_for_each_program(tmp_path: Path) -> None:
    output = tmp_path / "rows.csv"
    for count, provenance in ((1, ME), (2, ME), (1, OTHER)):
        with closing(Store(output, provenance)) as store:
            assert store.is_of_another_program() is (provenance is OTHER)
        fill(output, count, provenance)
    lines = [json.loads(line) for line in journal_of(output).read_text(encoding="utf-8").splitlines()]
    assert [line.get("provenance") for line in lines] == [ME, None, None, None, OTHER, None]
    with closing(Store(output, ME)) as store:
        assert store.is_of_another_program()


def test_a_later_row_of_the_same_cell_counts(tmp_path: Path) -> None:
    store = Store(tmp_path / "rows.csv", ME)
    for status in ("failed", "done"):
        store.add(digest(CELLS[0]), CELLS[0], {"status": status})
        assert (digest(CELLS[0]) in store.rows()) is (status == "done")
    store.close()
    with closing(Store(tmp_path / "rows.csv", ME)) as again:
        assert again.rows() == {digest(CELLS[0]): {"status": "done"}}


@pytest.mark.parametrize(
    ("text", "place"),
    [("instance,seed\n", "line 1"), ("{}\n", "line 1"), ("[1]\n", "line 1"), ('{"format": "x"}\n', "line 1")],
)
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, text: str, place: str) -> None:
    journal = tmp_path / "rows.csv.journal"
    journal.write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError, match=rf"rows\.csv\.journal: {place}: is not one of a sweep's journal"):
        Store(tmp_path / "rows.csv", ME)
    assert journal.read_text(encoding="utf-8") == text


HEADER = '{"format": "allocopt-sweep", "version": 1'


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"cell": 3}', "is neither a header nor a cell"),
        ("[" * 100_000, "is not one of a sweep's journal"),
        ("9" * 5000, "is not one of a sweep's journal"),
        ('{"cell": {"seed": NaN}, "row": {}}', "holds a value that no sweep writes, such as NaN"),
        ('{"cell": {"instance": "\\ud800"}, "row": {}}', "holds a value that no sweep writes, such as NaN"),
        (HEADER.replace("1", "2") + "}", "version: is 2, this program reads version 1"),
        (HEADER + "}", "does not say who computed what follows"),
        (HEADER + ', "provenance": [1]}', "does not say who computed what follows"),
    ],
    ids=["no cell", "deep", "long", "nan", "surrogate", "other version", "nobody", "list"],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, fault: str) -> None:
    fill(tmp_path / "rows.csv")
    journal = tmp_path / "rows.csv.journal"
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[2] = f"{line}\n"
    journal.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(BadFileError, match=f"line 3: {fault}"):
        Store(tmp_path / "rows.csv", ME)


def test_a_journal_that_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.csv.journal")
    with pytest.raises(BadFileError, match=r"rows\.csv\.journal: is no regular file; move it away"):
        Store(tmp_path / "rows.csv", ME)


def test_a_folder_cannot_be_the_table(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(BadFileError, match="is a directory, must be a file"):
        Store(tmp_path / "rows.csv", ME)
