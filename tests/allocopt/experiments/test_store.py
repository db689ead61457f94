"""The store: what is in it is not lost, it belongs to one process at a time, and nothing else is taken for one."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.sweep_tasks import AnsweringTask
from support.sweeps import wait_for

from allocopt.errors import BadFileError, UsageError
from allocopt.experiments.cells import Cell
from allocopt.experiments.store import Status, Store

ME = {"version": "1", "commit": "a"}
OTHER = {"version": "1", "commit": "b"}
CELLS = [Cell(AnsweringTask("i0", seed), "ä") for seed in range(4)]


def fill(output: Path, count: int = len(CELLS), provenance: dict[str, str] = ME, setting: Any = None) -> None:
    with closing(Store(output, provenance, setting)) as store:
        store.begin(len(CELLS), 0)
        for cell in CELLS[:count]:
            store.add(cell, cell.row({"status": "done", "value": 1}))


def kept(output: Path) -> list[int]:
    with closing(Store(output, ME)) as store:
        return [row["seed"] for row in store.rows().values()]


def columns(output: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(output.with_name(f"{output.name}.sqlite"))) as file:
        return file.execute(query).fetchall()


def test_rows_are_there_when_a_run_goes_on_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    output = tmp_path / "folder" / "rows.csv"
    fill(output, 2)
    assert kept(output) == [0, 1]
    fill(output)
    assert kept(output) == [0, 1, 2, 3]
    assert columns(output, "SELECT times FROM cells ORDER BY rowid") == [(2,), (2,), (1,), (1,)]
    assert [path.name for path in output.parent.iterdir()] == ["rows.csv.sqlite"]


def test_a_second_store_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "rows.csv", ME)) as first:
        for cells in ([], CELLS[:1]):
            first.drop([cell.key for cell in cells if cell.key in first.rows()])
            with pytest.raises(UsageError, match=r"rows\.csv\.sqlite is in use: another run is writing it"):
                Store(tmp_path / "rows.csv", ME)
    Store(tmp_path / "rows.csv", ME, {"solvers": "a"}).close()
    assert list(tmp_path.iterdir()) == [], "a store without rows leaves no file"


def test_rows_that_are_dropped_or_failed_are_not_there(tmp_path: Path) -> None:
    fill(tmp_path / "rows.csv")
    with closing(Store(tmp_path / "rows.csv", ME)) as store:
        store.drop([CELLS[1].key])
        assert CELLS[1].key not in store.rows()
    assert kept(tmp_path / "rows.csv") == [0, 2, 3]
    for fault in ("it failed", None):
        with closing(Store(tmp_path / "rows.csv", ME)) as store:
            store.add(CELLS[0], {"status": "failed"}, fault)
            assert (CELLS[0].key in store.rows()) is (fault is None)
            assert store.faults() == ({} if fault is None else {CELLS[0].key: fault})


def test_rows_of_another_program_are_noticed(tmp_path: Path) -> None:
    output = tmp_path / "rows.csv"
    for provenance, is_other in ((ME, False), (ME, False), (OTHER, True), (ME, True)):
        with closing(Store(output, provenance)) as store:
            assert store.is_of_another_program() is is_other
        fill(output, 1 if provenance is OTHER else 4, provenance)
        if provenance is OTHER:
            fill(output, 0, ME)


def test_a_store_of_another_setting_is_refused_and_kept(tmp_path: Path) -> None:
    output = tmp_path / "rows.csv"
    fill(output, setting={"solvers": "a,b", "seeds": (0, 1)})
    fill(output, setting={"solvers": "a,b", "seeds": [0, 1]})
    with pytest.raises(UsageError, match=r"rows\.csv\.sqlite belongs to another run \(it differs in solvers\): finish"):
        Store(output, ME, {"solvers": "a", "seeds": [0, 1]})
    assert kept(output) == [0, 1, 2, 3]


WRITER = """
import sys
from pathlib import Path
from test_store import CELLS, ME, Store
store = Store(Path(sys.argv[1]), ME)
store.begin(4, 0)
store.add(CELLS[0], {"seed": 0})
store.commit(1, at_once=True)
store._file.execute("BEGIN IMMEDIATE")
store._file.execute("PRAGMA cache_spill = 1")
store._file.execute("DELETE FROM cells")
store._file.execute("CREATE TABLE large (text TEXT)")
store._file.executemany("INSERT INTO large VALUES (?)", [("x" * 100_000,)] * 300)
print("written", flush=True)
sys.stdin.read()
"""


def test_a_writer_killed_within_a_transaction_leaves_what_was_committed(tmp_path: Path) -> None:
    output = tmp_path / "rows.csv"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", WRITER, str(output)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        assert (tmp_path / "rows.csv.sqlite-journal").stat().st_size > 0
        process.send_signal(signal.SIGKILL)
        assert wait_for(lambda: process.poll() is not None)
    status = Status.read(output)
    assert (status.total, status.done, status.running) == (4, 1, 0)
    assert kept(output) == [0]


@pytest.mark.parametrize("content", ["instance,seed\n", "{}\n" * 400, "SQLite format 3\0" + "x" * 5000])
def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "rows.csv.sqlite"
    path.write_text(content, encoding="utf-8")
    for read in (Status.read, lambda output: Store(output, ME)):
        with pytest.raises(
            BadFileError, match=r"rows\.csv\.sqlite: is damaged or not a store of rows .*; move the file"
        ):
            read(tmp_path / "rows.csv")
    assert path.read_text(encoding="utf-8") == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("UPDATE meta SET value = '2' WHERE name = 'version'", "version: is 2, this program reads version 1; move"),
        ("UPDATE meta SET value = 'x' WHERE name = 'format'", "is not a store of rows; move the file away"),
        ("DROP TABLE meta", "is not a store of rows; move the file away"),
        ("DROP TABLE cells", "cannot be used: no such table: cells"),
        ("UPDATE cells SET row = '[3]'", "is damaged; move the file away"),
        ("UPDATE cells SET cell = '{'", "is damaged; move the file away"),
        (f"UPDATE cells SET row = '{'[' * 100_000}'", "is damaged; move the file away"),
        ("", r"rows\.csv\.sqlite: is damaged or not a store of rows"),
    ],
    ids=["version", "format", "other database", "no cells", "list", "half", "deep", "cut"],
)
def test_what_is_damaged_or_of_another_program_is_named(tmp_path: Path, change: str, fault: str) -> None:
    fill(tmp_path / "rows.csv")
    path = tmp_path / "rows.csv.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(change)
    if not change:
        path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(BadFileError, match=fault):
        Store(tmp_path / "rows.csv", ME)
    assert path.exists()


def test_what_cannot_be_a_table_or_a_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "rows.csv.sqlite")
    for name, fault in (
        ("folder", "folder: cannot be written: is a directory, must be a file"),
        ("file/rows.csv", "cannot be written"),
        ("rows.csv", r"rows\.csv\.sqlite: is not a regular file; move it away"),
    ):
        with pytest.raises(BadFileError, match=fault):
            Store(tmp_path / name, ME)


def test_how_far_a_run_is_can_be_read_while_it_goes_on(tmp_path: Path) -> None:
    output = tmp_path / "rows.csv"
    with pytest.raises(BadFileError, match=r"rows\.csv\.sqlite: does not exist: nothing has been run"):
        Status.read(output)
    with closing(Store(output, ME)) as store:
        with pytest.raises(BadFileError, match="has no run yet"):
            Status.read(output)
        store.begin(4, 0)
        store.add(CELLS[0], {"status": "done"})
        store.add(CELLS[1], {"status": "failed"}, "it failed")
        store.commit(2, at_once=True)
        status = Status.read(output)
        assert (status.total, status.done, status.failed, status.running, status.left) == (4, 2, 1, 2, 2)
    assert Status.read(output).running == 0
