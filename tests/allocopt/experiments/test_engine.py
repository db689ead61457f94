"""Whatever the order of finishing and whoever dies: every cell ends with one row."""

import io
import os
import re
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sweep_tasks import AnsweringTask, CountingTask, DyingTask, HangingTask, RefusingTask, ThreadsTask, grid_of

from allocopt.errors import UsageError
from allocopt.experiments.cells import Answer, Grid, Row, run_task
from allocopt.experiments.engine import Executor, Here, run
from allocopt.experiments.store import Status, Store
from allocopt.experiments.workers import LocalWorkers

ME = {"version": "1"}


class DrawnExecutor:
    """Runs cells here, finishes them in a drawn order, and loses some."""

    blocks = False

    def __init__(self, grid: Grid, slots: int, data: st.DataObject, losses: int) -> None:
        self.began: list[int] = []
        self._grid, self._slots, self._data, self._losses = grid, slots, data, losses
        self._running: list[int] = []

    def has_room(self) -> bool:
        return len(self._running) < self._slots

    def submit(self, number: int) -> None:
        assert self.has_room()
        self.began.append(number)
        self._running.append(number)

    def news(self, timeout_s: float) -> Sequence[tuple[int, Answer]]:
        number = self._running.pop(self._data.draw(st.integers(0, len(self._running) - 1)))
        if self._losses and self._data.draw(st.booleans()):
            self._losses -= 1
            return [(number, Answer(None, "it was lost", is_lost=True))]
        cell = self._grid.cells[number]
        return [(number, run_task(cell.task, self._grid.inputs[cell.source]))]

    def stop(self, number: int) -> None:
        """Nothing has begun."""


def drive(grid: Grid, executor: Executor, folder: Path) -> tuple[list[Row], str]:
    told, in_order = io.StringIO(), []
    with closing(Store(folder / "rows.csv", ME)) as store:
        runs = nullcontext(executor)
        rows = run(grid, store, lambda: runs, out=told, on_row=lambda cell, row: in_order.append(row))
        kept = store.rows()
        assert rows == [kept.get(cell.key, row) for cell, row in zip(grid.cells, rows, strict=True)]
        assert in_order == [row for row in rows if row["status"] != "failed"]
    return rows, told.getvalue()


def values(rows: Sequence[Row]) -> list[tuple[object, object]]:
    return [(row["status"], row["value"]) for row in rows]


@given(st.data(), st.integers(1, 12), st.integers(1, 4))
def test_rows_do_not_depend_on_the_order_of_finishing_nor_on_losses(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, count: int, slots: int
) -> None:
    grid = grid_of(*(AnsweringTask(f"i{number % 3}", number) for number in range(count)), attempts=5)
    rows, _ = drive(grid, DrawnExecutor(grid, slots, data, losses=4), tmp_path_factory.mktemp("sweep"))
    assert values(rows) == [("done", number % 3 + number) for number in range(count)]


@given(st.data())
def test_only_what_is_not_finished_is_run_again(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("sweep")
    grid = grid_of(*(AnsweringTask("i0", seed) for seed in range(6)), RefusingTask("i0", 6))
    first = data.draw(st.sets(st.integers(0, 5)))
    part = Grid(tuple(cell for number, cell in enumerate(grid.cells) if number in first), grid.inputs, 3)
    drive(part, DrawnExecutor(part, 2, data, losses=0), folder)
    for _ in range(2):
        executor = DrawnExecutor(grid, 2, data, losses=0)
        rows, told = drive(grid, executor, folder)
        # The cell that failed is tried again.
        assert set(executor.began) == set(range(7)) - first
        kept = f"allocopt: {len(first)} of 7 cells are in {folder / 'rows.csv.sqlite'}\n" if first else ""
        assert told == f"{kept}allocopt: i0 seed 6 failed: cannot be run\n"
        assert values(rows)[6] == ("failed", None)
        first = set(range(6))


def test_processes_run_cells_with_one_thread_each(tmp_path: Path) -> None:
    grid = grid_of(*(AnsweringTask(f"i{number % 2}", number) for number in range(6)), ThreadsTask("i5", 0))
    with closing(LocalWorkers(grid, 2)) as executor:
        rows, told = drive(grid, executor, tmp_path)
    assert values(rows) == [*(("done", number % 2 + number) for number in range(6)), ("done", "1")]
    assert told == ""


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("signal", "its worker was killed by SIGKILL, perhaps because memory ran out"),
        ("exit", "its worker ended with exit code 7"),
        ("error", "its worker ended with exit code 1"),
    ],
)
def test_a_cell_whose_worker_dies_is_run_again_and_fails_in_the_end(tmp_path: Path, way: str, reason: str) -> None:
    dying = [DyingTask("i1", deaths, str(tmp_path / f"deaths{deaths}"), deaths, way) for deaths in (2, 3)]
    grid = grid_of(AnsweringTask("i1", 0), *dying, *(AnsweringTask("i1", seed) for seed in range(4, 8)))
    with closing(LocalWorkers(grid, 2)) as executor:
        rows, told = drive(grid, executor, tmp_path)
    expected = [("done", 1), ("done", 3), ("failed", None), *(("done", 1 + seed) for seed in range(4, 8))]
    assert values(rows) == expected
    assert rows[2]["error"] == f"{reason}, in the last of 3 attempts"
    assert (tmp_path / "deaths3").read_text(encoding="utf-8") == "xxx"
    assert f"allocopt: i1 seed 2: {reason}; attempt 3 of 3\n" in told


@pytest.mark.slow
def test_a_cell_that_hangs_fails_at_its_deadline_and_its_worker_is_replaced(tmp_path: Path) -> None:
    grid = grid_of(HangingTask("i1", 0), *(AnsweringTask("i1", seed) for seed in (1, 2)))
    with closing(LocalWorkers(grid, 1)) as executor:
        rows, told = drive(grid, executor, tmp_path)
    assert values(rows) == [("failed", None), ("done", 2), ("done", 3)]
    assert told == "allocopt: i1 seed 0 failed: it did not answer within 0.1 s, so its worker was ended\n"


def test_a_fresh_process_knows_nothing_of_what_ran_before(tmp_path: Path) -> None:
    grid = grid_of(*(CountingTask("i1", seed) for seed in range(3)))
    for fresh, counts in ((False, [1, 2, 3]), (True, [1, 1, 1])):
        folder = tmp_path / str(fresh)
        with closing(LocalWorkers(grid, 1, fresh=fresh)) as executor:
            rows, _ = drive(grid, executor, folder)
        assert [row["value"] for row in rows] == counts


def test_an_error_in_this_process_ends_the_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    grid = grid_of(AnsweringTask("i0", 0), RefusingTask("i0", 1), AnsweringTask("i0", 2))
    with pytest.raises(UsageError, match="cannot be run"):
        drive(grid, Here(grid), tmp_path)
    status = Status.read(tmp_path / "rows.csv")
    assert (status.total, status.done, status.failed, status.running, status.left) == (3, 1, 0, 0, 2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


@pytest.mark.parametrize("columns", [0, 40, 80, 200])
def test_a_terminal_shows_progress_on_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((columns, 24)))
    grid, terminal = grid_of(*(AnsweringTask("i0", seed) for seed in range(8))), Terminal()
    with closing(Store(tmp_path / "rows.csv", ME)) as store:
        run(grid, store, lambda: nullcontext(Here(grid)), out=terminal)
    pieces = re.split(r"[\r\n]", terminal.getvalue())
    # What stays may be longer than a line.
    assert max(len(piece) for piece in pieces if not piece.startswith("allocopt: ")) == min(columns or 80, 80) - 1
    assert any(piece.startswith("3 of 8 cells, 0:0") for piece in pieces)
    assert pieces[-2].startswith("allocopt: 8 of 8 cells, 0:0")
