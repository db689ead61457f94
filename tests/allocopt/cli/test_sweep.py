"""``allocopt sweep``: its table, going on after crashes, and what it says."""

import csv
import json
import os
import re
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.gated import CELLS, UNGATED
from support.program import Run
from support.sweeps import (
    Gate,
    finished,
    kill,
    members,
    plug_in,
    start,
    untimed,
    wait_for,
    write_sweep,
)
from support.windows import paper_window

from allocopt.experiments.store import Status
from allocopt.problems.instances import write_problems

SOLVE_COLUMNS = [
    "instance", "kind", "strategy", "solver", "status", "objective", "bound", "gap", "runtime_s", "seed", "options",
    "time_limit_s", "iterations", "gap_limit", "solver_version", "error",
]  # fmt: skip
SIMULATE_COLUMNS = [
    "trace", "policy", "backfill", "allocator", "strategy", "status", "jobs", "mean_wait_s", "max_wait_s",
    "mean_bounded_slowdown", "utilization", "makespan_s", "runtime_s", "jobs_per_s", "seed", "options",
    "backfill_order", "time_limit_s", "iterations", "error",
]  # fmt: skip
PLUGIN = """
import ctypes
import os
import signal
from pathlib import Path

from allocopt.heuristics.topology.production_rules import BestFit


class Deadly(BestFit):
    name = "deadly"

    def solve(self, problem, budget, seed, warm_start=None, on_incumbent=None):
        if seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == 2:
            raise ValueError("seed\\n2")
        if seed == 99:
            Path("stuck").touch()
            # This function of the C library is called without letting other threads run.
            ctypes.PyDLL(None).sleep(600)
        return super().solve(problem, budget, seed, warm_start, on_incumbent)
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """Grid of 8 cells."""
    write_problems(tmp_path / "windows.jsonl", [paper_window(index) for index in range(2)])
    solvers = ["best-fit:free", "annealing:dcas"]
    return write_sweep(tmp_path / "grid.toml", instances=["windows.jsonl"], solvers=solvers, seeds=2)


@pytest.mark.slow
def test_the_table_has_a_row_per_cell_in_the_order_of_the_grid(run: Run, grid: Path, tmp_path: Path) -> None:
    answer = run("sweep", grid, "--workers", "2", "--json")
    assert answer.code == 0
    assert answer.lines_of_error[-1] == f"{tmp_path / 'grid.csv'}: rows written: 8"
    assert [list(row) for row in answer.rows] == [SOLVE_COLUMNS] * 8
    order = [(row["instance"], row["solver"], row["strategy"], row["seed"]) for row in answer.rows]
    expected = [(f"paper-{index}", *how) for index in range(2) for how in (("best-fit", "free"), ("annealing", "dcas"))]
    assert order == [(*cell, seed) for cell in expected for seed in range(2)]
    with (tmp_path / "grid.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    texts = [{name: "" if value is None else str(value) for name, value in row.items()} for row in answer.rows]
    assert table == texts
    how = ("--solver", "annealing", "--strategy", "dcas", "--iterations", "50", "--seed", "1")
    one = run("solve", tmp_path / "windows.jsonl", *how, "--json")
    asked = ("instance", "kind", "strategy", "solver", "status", "objective", "bound", "gap", "seed")
    swept = [row for row in answer.rows if row["solver"] == "annealing" and row["seed"] == 1]
    assert [[row[name] for name in asked] for row in swept] == [[row[name] for name in asked] for row in one.rows]


@pytest.mark.slow
def test_a_finished_sweep_runs_nothing_again_and_more_seeds_only_what_is_new(run: Run, grid: Path) -> None:
    table = grid.with_suffix(".csv")
    assert run("sweep", grid, "--workers", "1").code == 0
    first, store = table.read_bytes(), (grid.parent / "grid.csv.sqlite").read_bytes()
    table.unlink()
    answer = run("sweep", grid)
    assert (answer.code, answer.err, answer.out) == (0, "", f"{table}: rows written: 8\n")
    assert (table.read_bytes(), (grid.parent / "grid.csv.sqlite").read_bytes()) == (first, store)
    grid.write_text(grid.read_text(encoding="utf-8").replace("[0, 1]", "[4, 0, 1]"), encoding="utf-8")
    answer = run("sweep", grid, "--workers", "1")
    assert answer.lines_of_error[0] == f"allocopt: 8 of 12 cells are in {table}.sqlite"
    assert finished(table) == 12
    kept = table.read_text(encoding="utf-8").splitlines()
    assert [line for line in kept if ",4,{}" not in line] == first.decode().splitlines()


@pytest.mark.slow
def test_rows_that_are_none_of_this_program_are_computed_again(run: Run, grid: Path) -> None:
    assert run("sweep", grid, "--workers", "1").code == 0
    rows = untimed(grid.with_suffix(".csv"))
    store = grid.with_name("grid.csv.sqlite")
    with closing(sqlite3.connect(store, isolation_level=None)) as file:
        for number, change in enumerate(("'$.more', 1", "'$.seed', 9", "'$.status', null"), start=1):
            file.execute(f"UPDATE cells SET row = json_set(row, {change}) WHERE rowid = {number}")
    answer = run("sweep", grid, "--workers", "1")
    assert answer.code == 0
    assert f"allocopt: {store}: rows with other columns, which are computed again: 3" in answer.lines_of_error
    assert untimed(grid.with_suffix(".csv")) == rows


@pytest.mark.slow
def test_a_changed_instance_is_another_cell_and_the_old_row_is_stale(run: Run, grid: Path, tmp_path: Path) -> None:
    assert run("sweep", grid, "--workers", "1").code == 0
    write_problems(tmp_path / "windows.jsonl", [paper_window(0)])
    answer = run("sweep", grid, "--workers", "1")
    stale = f"allocopt: 4 cells in {tmp_path / 'grid.csv'}.sqlite left out, such as paper-1 free best-fit seed 0: "
    assert answer.lines_of_error == [f"{stale}it is no longer in the grid; --drop-stale removes them"]
    other = tmp_path / "other.toml"
    write_sweep(other, instances=["windows.jsonl"], solvers=["best-fit:free"], seeds=1, iterations=7)
    answer = run("sweep", other, "-o", tmp_path / "grid.csv", "--workers", "1")
    assert "such as paper-0 free best-fit seed 0: iterations was 50, is 7; --drop-stale removes them" in answer.err
    assert len(untimed(tmp_path / "grid.csv")) == 1
    answer = run("sweep", other, "-o", tmp_path / "grid.csv", "--drop-stale")
    assert answer.lines_of_error == [f"allocopt: {tmp_path / 'grid.csv'}.sqlite: cells removed: 8"]
    assert finished(tmp_path / "grid.csv") == 1


@pytest.mark.slow
def test_traces_are_simulated(run: Run, tmp_path: Path) -> None:
    jobs = [f"{job} {9 * job} -1 {90 + job} {1 + job % 4} -1 -1 -1 500 -1 1 1 1 1 1 1 -1 -1" for job in range(1, 40)]
    (tmp_path / "jobs.swf").write_text("; MaxProcs: 8\n" + "\n".join(jobs) + "\n", encoding="utf-8")
    text = (
        'seeds = [5]\n[[traces]]\nfile = "jobs.swf"\nfat_tree = [2, 2, 2]\n[[policies]]\nname = "fcfs"\n'
        'backfill = ["none", "easy"]\nallocator = "best-fit"\n[[policies]]\nname = "optimization"\n'
    )
    (tmp_path / "grid.toml").write_text(text, encoding="utf-8")
    answer = run("sweep", tmp_path / "grid.toml", "-o", tmp_path / "rows.jsonl", "--workers", "1", "--json")
    assert [list(row) for row in answer.rows] == [SIMULATE_COLUMNS] * 3
    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == answer.rows
    options = ("--fat-tree", "2,2,2", "--seed", "5", "--json")
    ways = (("fcfs", "--allocator", "best-fit"), ("fcfs", "--allocator", "best-fit", "--backfill", "easy"))
    alone = [run("simulate", tmp_path / "jobs.swf", *options, "--policy", *way).rows[0] for way in ways]
    same = [name for name in alone[0] if name not in ("runtime_s", "jobs_per_s")]
    assert [[row[name] for name in same] for row in answer.rows[:2]] == [[row[name] for name in same] for row in alone]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Folder of a package with a solver that kills its process, raises or hangs."""
    (tmp_path / "deadly.py").write_text(PLUGIN, encoding="utf-8")
    plug_in(tmp_path, deadly="deadly:Deadly")
    return tmp_path


@linux
@pytest.mark.slow
def test_a_worker_that_hangs_in_native_code_ends_with_the_driver(grid: Path, plugin: Path) -> None:
    write_sweep(grid, instances=["windows.jsonl"], solvers=["deadly"], seeds=1)
    grid.write_text(grid.read_text(encoding="utf-8").replace("[0]", "[99]"), encoding="utf-8")
    path = os.pathsep.join([str(plugin), *sys.path])
    process = start("sweep", grid, "--workers", "1", cwd=plugin, env={**os.environ, "PYTHONPATH": path})
    assert wait_for((plugin / "stuck").exists)
    process.kill()
    process.wait()
    try:
        assert wait_for(lambda: not members(process.pid))
    finally:
        for pid in members(process.pid):
            kill(pid)


@pytest.mark.slow
def test_cells_that_fail_are_told_by_the_exit_code_and_lose_no_other(
    run: Run, grid: Path, plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(plugin)
    write_sweep(grid, instances=["windows.jsonl"], solvers=["deadly", "best-fit"], seeds=4)
    grid.write_text("attempts = 2\n" + grid.read_text(encoding="utf-8"), encoding="utf-8")
    answer = run("sweep", grid, "--workers", "2", "--json")
    assert answer.code == 1
    statuses = {(row["solver"], row["seed"]): (row["status"], row["error"]) for row in answer.rows}
    died = "its worker was killed by SIGKILL, perhaps because memory ran out, in the last of 2 attempts"
    assert statuses["deadly", 1] == ("failed", died)
    assert statuses["deadly", 2] == ("failed", "solver 'deadly' raised ValueError: seed\\n2")
    assert {status for key, (status, _) in statuses.items() if key not in {("deadly", 1), ("deadly", 2)}} <= {
        "FEASIBLE", "OPTIMAL",
    }  # fmt: skip
    last = answer.lines_of_error[-1]
    assert last.startswith(f"allocopt: 4 of 16 cells failed; the first is paper-0 free deadly seed 1: {died}; run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("local", "--ray 'local': must be HOST:PORT of a running cluster, or auto"),
        ("", "--ray '': must be HOST:PORT of a running cluster, or auto"),
        ("localhost:http", "--ray localhost:http: the port is 'http', must be a number up to 65535"),
        ("127.0.0.1:1", "--ray 127.0.0.1:1: no Ray cluster answers: "),
    ],
)
def test_an_address_where_no_ray_cluster_answers_is_one_line(run: Run, grid: Path, address: str, fault: str) -> None:
    pytest.importorskip("ray")
    answer = run("sweep", grid, "--ray", address)
    assert (answer.code, answer.out) == (2, "")
    assert fault in answer.lines_of_error[-1]


def test_without_ray_it_is_5_and_named(run: Run, grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = run("sweep", grid, "--ray", "auto")
    assert "'ray', which is not installed: pip install 'allocopt[distributed]'" in answer.refusal(5)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Grid of which a test says when all but two cells end."""
    made = Gate(tmp_path, monkeypatch)
    monkeypatch.setattr(sys, "path", os.environ["PYTHONPATH"].split(os.pathsep))
    return made


@linux
@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_says_how_to_go_on_and_no_second_driver_is_let_in(run: Run, gate: Gate) -> None:
    table = gate.grid.with_suffix(".csv")
    process = start("sweep", gate.grid, "--workers", "1")
    assert wait_for(lambda: finished(table) == UNGATED)
    assert wait_for(lambda: Status.read(table).running == 1)
    told = run("sweep", gate.grid, "--status")
    assert re.fullmatch(
        rf"{table}: {UNGATED} of {CELLS} cells, 1 running, 0:\d\d:\d\d elapsed, .*/s, about .* left\n", told.out
    )
    (status,) = run("sweep", gate.grid, "--status", "--json").rows
    assert (status["total"], status["done"], status["failed"], status["left"]) == (CELLS, UNGATED, 0, CELLS - UNGATED)
    refused = run("sweep", gate.grid)
    assert (refused.code, refused.out) == (2, "")
    assert refused.lines_of_error == [f"allocopt: {table}.sqlite is in use: another run is writing it"]
    # As a terminal does: to all of the group.
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    # A slow machine says before that how far it is.
    kept = f"{UNGATED} of {CELLS} cells done, kept in {table}.sqlite; the same command goes on from there"
    assert out.splitlines()[-1] == f"allocopt: interrupted; {kept}"
    assert "Traceback" not in out
    assert wait_for(lambda: not members(process.pid))
    assert not table.exists()
    assert Status.read(table).running == 0
