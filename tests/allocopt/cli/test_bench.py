"""``allocopt bench``: the table, the rows and their files, what is refused, and going on after an interruption."""

import csv
import json
import os
import pty
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.program import Run, Start
from support.windows import paper_window, window

from allocopt import __version__
from allocopt.cluster.topology import FatTree
from allocopt.experiments.grids import _BenchTask
from allocopt.report.provenance import _commit

COLUMNS = [
    "instance", "kind", "strategy", "solver", "status", "objective", "bound", "gap", "runtime_s", "seed",
    "solver_version", "best_known", "best_known_proved", "best_known_scas",
]  # fmt: skip
FACTS = ["version", "commit", "python", "machine"]


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]


def test_the_table_has_a_line_per_solver_and_strategy_each_once(run: Run) -> None:
    answer = run("bench", "@tiny", "--solvers", "dp:scas,annealing", "--seeds", "0,1", "--strategy", "free,scas,dcas")
    assert (answer.code, answer.err) == (0, "")
    header, rule, *lines = cells(answer.out)
    assert header[:4] == ["solver", "strategy", "solves", "mean cost"]
    assert set("".join(rule)) == {"-", ":"}
    assert [line[:3] for line in lines] == [["dp", "scas", "6"], ["annealing", "free", "6"], ["annealing", "dcas", "6"]]
    assert lines[0][3] == "25,666.7"
    assert lines[0][6] == "100"
    assert answer.out.splitlines()[-1].startswith(f"{__version__}, commit {_commit()}, Python 3.")
    assert len({len(line) for line in answer.out.splitlines() if line.startswith("|")}) == 1
    twice = run("bench", "@tiny", "--solvers", "dp,dp:scas,dp", "--strategy", "scas, scas", "--seeds", "1,1, 1")
    assert [line[:3] for line in cells(twice.out)[2:]] == [["dp", "scas", "3"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shipped", "solvers", "figure"), [("@tiny", "dp,scip", "cost"), ("@coallocations", "scip,greedy", "objective")]
)
def test_json_rows_are_alone_on_standard_output(run: Run, shipped: str, solvers: str, figure: str) -> None:
    answer = run("bench", shipped, "--solvers", solvers, "--strategy", "scas", "--json")
    assert {tuple(row) for row in answer.rows} == {tuple(COLUMNS)}
    assert {row["solver"] for row in answer.rows} == set(solvers.split(","))
    assert cells(answer.err)[0][0] == "solver"
    assert f"mean {figure}" in answer.err


@pytest.mark.slow
def test_json_rows_reach_a_file_while_a_terminal_shows_the_progress(start: Start, tmp_path: Path) -> None:
    parent, child = pty.openpty()
    with (tmp_path / "rows.jsonl").open("wb") as out:
        settings = {"stdout": out, "stderr": child, "variables": {"TERM": "xterm"}}
        process = start("bench", "@tiny", "--solvers", "dp:scas", "--json", **settings)
    os.close(child)
    shown = read_terminal(parent)
    assert process.wait(600) == 0
    assert "3 of 3 solves, 0:0" in shown
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["solver"] for row in rows] == ["dp"] * 3


def read_terminal(parent: int) -> str:
    """Read what a terminal shows until its last writer has ended."""
    shown = b""
    with open(parent, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(4096):
                shown += piece
        except OSError:
            pass
    return shown.decode(errors="replace")


def test_csv_and_json_files_hold_the_same_rows_with_where_they_come_from(run: Run, tmp_path: Path) -> None:
    arguments = ("bench", "@tiny", "--solvers", "dp:scas,sequential:free", "--seeds", "4")
    files = [tmp_path / "rows.csv", tmp_path / "rows.json"]
    for path in files:
        assert run(*arguments, "--out", path).code == 0
    table, rows = read_csv(files[0]), json.loads(files[1].read_text(encoding="utf-8"))
    assert [list(row) for row in rows] == [COLUMNS + FACTS] * 6
    assert list(table[0]) == COLUMNS + FACTS
    for line, row in zip(table, rows, strict=True):
        assert (row["version"], row["commit"], row["seed"]) == (__version__, _commit(), 4)
        same = [key for key in COLUMNS + FACTS if key != "runtime_s"]
        assert [line[key] for key in same] == ["" if row[key] is None else str(row[key]) for key in same]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "rows.json"]


def test_gaps_are_to_the_best_known_value_of_the_same_strategy(
    run: Run, save: Callable[..., Path], tmp_path: Path
) -> None:
    instances = save(paper_window(0), paper_window(1))
    scas = {row["instance"]: row["objective"] for row in run("bench", instances, "--solvers", "dp:scas", "--json").rows}
    known = {name: {"scas": {"objective": value / 2, "proved": True}} for name, value in scas.items()}
    (tmp_path / "best_known.json").write_text(json.dumps(known), encoding="utf-8")
    answer = run("bench", instances, "--solvers", "dp", "--strategy", "scas", "--json")
    for row in answer.rows:
        assert (row["best_known"], row["best_known_proved"]) == (scas[row["instance"]] / 2, True)
    assert cells(answer.err)[2][4:6] == ["100.000", "100.00"]
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps({"paper-0": {"scas": {"objective": scas["paper-0"], "proved": True}}}), "utf-8")
    answer = run("bench", instances, "--solvers", "dp:scas,sequential:free", "--best-known", elsewhere, "--json")
    assert [row["best_known"] for row in answer.rows] == [scas["paper-0"], None, None, None]
    assert [row["best_known_scas"] for row in answer.rows] == [scas["paper-0"], scas["paper-0"], None, None]
    assert cells(answer.err)[2][4] == "0.000"
    assert cells(answer.err)[3][4] == "-"


def test_what_a_solver_does_not_take_is_said_and_left_out(run: Run, save: Callable[..., Path]) -> None:
    large = window(FatTree(10, 10, 10), range(300), list(range(1, 20)), name="large")
    answer = run("bench", save(paper_window(0), large), "--solvers", "dp,sequential", "--strategy", "scas", "--json")
    assert answer.code == 0
    assert [(row["instance"], row["solver"]) for row in answer.rows] == [
        ("paper-0", "dp"),
        ("paper-0", "sequential"),
        ("large", "sequential"),
    ]
    refusal = answer.lines_of_error[0]
    assert refusal.startswith("allocopt: dp does not take 1 of 2 instances; the first is large: ")


def test_an_instance_that_is_refused_under_two_strategies_counts_once(run: Run, save: Callable[..., Path]) -> None:
    large = window(FatTree(30, 30, 30), range(20_001), [2], name="large")
    answer = run("bench", save(large, paper_window(0)), "--solvers", "simanneal", "--iterations", "5")
    assert "simanneal does not take 1 of 2 instances; the first is large: " in answer.err


@contextmanager
def interrupted_at(monkeypatch: pytest.MonkeyPatch, name: str, solver: str) -> Iterator[None]:
    """Let Ctrl-C come within the first solve of an instance by a solver."""
    ran = _BenchTask.run

    def run_task(task: _BenchTask, given: Any) -> Any:
        if (task.instance, task.solver) == (name, solver):
            raise KeyboardInterrupt
        return ran(task, given)

    with monkeypatch.context() as patched:
        patched.setattr(_BenchTask, "run", run_task)
        yield


def test_an_interrupted_run_goes_on_where_it_was(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "rows.json"
    command = ("bench", "@tiny", "--solvers", "simanneal:free", "--seeds", "0,1", "--iterations", "30", "--out", out)
    with interrupted_at(monkeypatch, "tiny-four-levels", "simanneal"):
        answer = run(*command)
    assert answer.code == 130
    assert f"4 of 6 solves done, kept in {out}.sqlite; the same command goes on from there" in answer.err
    assert not out.exists()
    with closing(sqlite3.connect(f"{out}.sqlite")) as file:
        kept = [json.loads(row) for (row,) in file.execute("SELECT row FROM cells ORDER BY rowid")]
    answer = run(*command)
    assert answer.code == 0, answer.err
    assert answer.lines_of_error[0] == f"allocopt: 4 of 6 solves are in {out}.sqlite"
    rows = json.loads(out.read_text(encoding="utf-8"))
    # Running times and all: nobody solved these again.
    assert [row["runtime_s"] for row in rows[:4]] == [row["runtime_s"] for row in kept]
    names = ["tiny-fat-tree-0", "tiny-fat-tree-1", "tiny-four-levels"]
    assert [(row["instance"], row["seed"]) for row in rows] == [(name, seed) for name in names for seed in (0, 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


@pytest.mark.parametrize(
    ("change", "differs"),
    [(("--iterations", "30"), "iterations"), (("--seeds", "1"), "cells"), (("--gap", "0.1"), "gap")],
)
def test_the_rows_of_another_run_are_refused_and_kept(
    run: Run, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, ...], differs: str
) -> None:
    out, store = tmp_path / "rows.json", tmp_path / "rows.json.sqlite"
    command = ("bench", tiny, "--solvers", "sequential:free,best-fit", "--iterations", "20", "--out", out)
    with interrupted_at(monkeypatch, "tiny-fat-tree-0", "best-fit"):
        assert run(*command).code == 130
    kept = store.read_bytes()
    answer = run(*command, *change)
    assert answer.code == 2
    assert answer.lines_of_error[-1].startswith(f"allocopt: {store} belongs to another run (it differs in {differs}")
    assert (store.read_bytes(), out.exists()) == (kept, False)
    assert run(*command).code == 0
    assert not store.exists()


@pytest.mark.slow
def test_solves_side_by_side_give_the_same_rows_in_the_same_order(run: Run, tmp_path: Path) -> None:
    command = ("bench", "@tiny", "--solvers", "dp:scas,annealing", "--iterations", "30", "--seeds", "0,1", "--json")
    alone, together = (run(*command, *more).rows for more in ((), ("--workers", "2")))
    assert [{**row, "runtime_s": 0} for row in alone] == [{**row, "runtime_s": 0} for row in together]


@pytest.mark.slow
def test_trajectories_of_a_run_that_goes_on_are_whole(run: Run, tiny: Path, tmp_path: Path) -> None:
    out, first, again = tmp_path / "rows.csv", tmp_path / "first.csv", tmp_path / "again.csv"
    command = ("bench", tiny, "--solvers", "lns,dp", "--iterations", "100", "--out", out)
    assert run(*command, "--trajectory", first).code == 0
    points = first.read_text(encoding="utf-8").splitlines()
    assert points[0] == "instance,kind,strategy,solver,seed,time_s,objective,bound"
    solves = {tuple(line.split(",")[2:4]) for line in points[1:]}
    assert solves == {("scas", "dp"), ("dcas", "dp"), ("dcas", "lns"), ("free", "lns")}
    assert run("solve", tiny, "--trajectory", again, "--iterations", "100").code == 0
    assert again.read_text(encoding="utf-8").splitlines()[0] == points[0]
    assert run("report", first, again, "-o", tmp_path / "page.html").code == 0
