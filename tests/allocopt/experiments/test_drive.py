"""Whatever the order of finishing and whoever dies: every cell ends with one row."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sweep_tasks import AnsweringTask, DyingTask, HangingTask, RefusingTask, ThreadsTask, grid_of

from allocopt.experiments.cells import Cell, Grid
from allocopt.experiments.drive import Drive
from allocopt.experiments.executor import Executor, Lost, News
from allocopt.experiments.local import LocalExecutor
from allocopt.experiments.progress import Progress
from allocopt.experiments.store import Store
from allocopt.experiments.work import run_task

ME = {"version": "1"}


class DrawnExecutor:
    """Runs cells here, finishes them in a drawn order, and loses some."""

    def __init__(self, grid: Grid, slots: int, data: st.DataObject, losses: int) -> None:
        self.began: list[int] = []
        self._grid, self._slots, self._data, self._losses = grid, slots, data, losses
        self._running: list[int] = []

    def has_room(self) -> bool:
        return len(self._running) < self._slots

    def submit(self, number: int, cell: Cell) -> None:
        assert self.has_room()
        self.began.append(number)
        self._running.append(number)

    def news(self, timeout_s: float) -> Sequence[News]:
        number = self._running.pop(self._data.draw(st.integers(0, len(self._running) - 1)))
        if self._losses and self._data.draw(st.booleans()):
            self._losses -= 1
            return [News(number, Lost("it was lost"))]
        cell = self._grid.cells[number]
        return [News(number, run_task(cell.task, self._grid.inputs[cell.source]))]

    def stop(self, number: int) -> None:
        """Nothing has begun."""

    def close(self) -> None:
        """Nothing is open."""


def drive(grid: Grid, executor: Executor, folder: Path) -> tuple[Store, str]:
    told = io.StringIO()
    store = Store(folder / "rows.csv", ME)
    Drive(grid, store, executor, Progress(len(grid.cells), 0, told), lambda: False).run()
    store.close()
    executor.close()
    return store, told.getvalue()


def rows(grid: Grid, store: Store) -> list[tuple[object, object]]:
    held = [store.records[cell.key]["row"] for cell in grid.cells]
    return [(row["status"], row["value"]) for row in held]


@given(st.data(), st.integers(1, 12), st.integers(1, 4))
def test_rows_do_not_depend_on_the_order_of_finishing_nor_on_losses(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, count: int, slots: int
) -> None:
    grid = grid_of(*(AnsweringTask(f"i{number % 3}", number) for number in range(count)), attempts=5)
    store, _ = drive(grid, DrawnExecutor(grid, slots, data, losses=4), tmp_path_factory.mktemp("sweep"))
    assert rows(grid, store) == [("done", number % 3 + number) for number in range(count)]


@given(st.data())
def test_only_what_is_not_finished_is_run_again(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("sweep")
    grid = grid_of(*(AnsweringTask("i0", seed) for seed in range(6)), RefusingTask("i0", 6))
    first = data.draw(st.sets(st.integers(0, 5)))
    part = Grid(tuple(cell for number, cell in enumerate(grid.cells) if number in first), grid.inputs, 3)
    drive(part, DrawnExecutor(part, 2, data, losses=0), folder)
    for _ in range(2):
        executor = DrawnExecutor(grid, 2, data, losses=0)
        store, told = drive(grid, executor, folder)
        # The cell that failed is tried again.
        assert set(executor.began) == set(range(7)) - first
        assert told == "allocopt: i0 seed 6 failed: cannot be run\n"
        assert rows(grid, store)[6] == ("failed", None)
        first = set(range(6))


def test_processes_run_cells_with_one_thread_each(tmp_path: Path) -> None:
    grid = grid_of(*(AnsweringTask(f"i{number % 2}", number) for number in range(6)), ThreadsTask("i5", 0))
    store, told = drive(grid, LocalExecutor(2, grid.inputs), tmp_path)
    assert rows(grid, store) == [*(("done", number % 2 + number) for number in range(6)), ("done", "1")]
    assert told == ""


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("signal", "its worker was killed by SIGKILL, perhaps for want of memory"),
        ("exit", "its worker ended with exit code 7"),
        ("error", "its worker ended with exit code 1"),
    ],
)
def test_a_cell_whose_worker_dies_is_run_again_and_fails_in_the_end(tmp_path: Path, way: str, reason: str) -> None:
    dying = [DyingTask("i1", deaths, str(tmp_path / f"deaths{deaths}"), deaths, way) for deaths in (2, 3)]
    grid = grid_of(AnsweringTask("i1", 0), *dying, *(AnsweringTask("i1", seed) for seed in range(4, 8)))
    store, told = drive(grid, LocalExecutor(2, grid.inputs), tmp_path)
    expected = [("done", 1), ("done", 3), ("failed", None), *(("done", 1 + seed) for seed in range(4, 8))]
    assert rows(grid, store) == expected
    failed = store.records[grid.cells[2].key]["row"]
    assert failed["error"] == f"{reason}, in the last of 3 attempts"
    assert (tmp_path / "deaths3").read_text(encoding="utf-8") == "xxx"
    assert f"allocopt: i1 seed 2: {reason}; attempt 3 of 3\n" in told


@pytest.mark.slow
def test_a_cell_that_hangs_fails_at_its_deadline_and_its_worker_is_replaced(tmp_path: Path) -> None:
    grid = grid_of(HangingTask("i1", 0), *(AnsweringTask("i1", seed) for seed in (1, 2)))
    executor = LocalExecutor(1, grid.inputs)
    store, told = drive(grid, executor, tmp_path)
    assert rows(grid, store) == [("failed", None), ("done", 2), ("done", 3)]
    assert told == "allocopt: i1 seed 0 failed: it did not answer within 0.1 s, so its worker was ended\n"
