"""Knapsacks and co-allocations on the command line: solved, verified, compared, generated."""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from support.program import Run
from support.windows import paper_window

from allocopt.problems.instances import read_problems

KEYS = ["instance", "kind", "strategy", "solver", "status", "objective", "bound", "gap", "runtime_s", "seed"]


@pytest.mark.parametrize(
    ("shipped", "kind", "count"),
    [("@knapsacks", "knapsack", 4), pytest.param("@coallocations", "coallocation", 5, marks=pytest.mark.slow)],
)
def test_a_row_has_the_keys_of_the_design_and_no_strategy(run: Run, shipped: str, kind: str, count: int) -> None:
    answer = run("solve", shipped, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert [list(row) for row in answer.rows] == [KEYS] * count
    for row in answer.rows:
        assert (row["kind"], row["strategy"], row["status"]) == (kind, None, "OPTIMAL")
        assert row["bound"] == row["objective"]
        assert kind == "knapsack" or row["objective"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "solver", "held"),
    [
        *(("knapsack", solver, "selected") for solver in ("auto", "scip", "greedy")),
        *(("coallocation", solver, "placements") for solver in ("auto", "cp-sat", "greedy")),
    ],
)
def test_verify_accepts_what_solvers_write(run: Run, tmp_path: Path, kind: str, solver: str, held: str) -> None:
    rows = run("solve", f"@{kind}s", "--solver", solver, "--solution", tmp_path, "--json").rows
    for row in rows:
        path = tmp_path / f"{row['instance']}.json"
        verified = run("verify", f"@{kind}s", path)
        assert verified.code == 0, verified.err
        assert f"{path}: valid, {kind}, objective" in verified.out
        stored = json.loads(path.read_text(encoding="utf-8"))
        less = {**stored, held: stored[held][1:], **({"slots": None} if kind == "knapsack" else {})}
        path.write_text(json.dumps(less), encoding="utf-8")
        assert run("verify", f"@{kind}s", path).code == 3


def test_people_are_told_how_many_jobs_a_placement_leaves_out(run: Run, tmp_path: Path) -> None:
    answer = run("solve", "@placements", "--solver", "cons-tres", "--solution", tmp_path)
    for problem, line in zip(read_problems("@placements"), answer.out.splitlines(), strict=True):
        placed = json.loads((tmp_path / f"{problem.name}.json").read_text(encoding="utf-8"))["placed"]
        left_out = len(problem.jobs) - sum(map(bool, placed.values()))
        assert line.endswith(f" s  {left_out} of {len(problem.jobs)} jobs left out")


def test_verify_shows_the_digits_of_small_objectives(run: Run, tmp_path: Path) -> None:
    rows = run("solve", "@knapsacks", "--solution", tmp_path, "--json").rows
    objective = next(row["objective"] for row in rows if row["instance"] == "tiny-turnaround")
    assert -1e-5 < objective < -1e-6
    path = tmp_path / "tiny-turnaround.json"
    shown = run("verify", "@knapsacks", path).out.split("objective ")[1].split(";")[0]
    assert float(shown) == pytest.approx(objective, rel=1e-9)


def test_a_line_says_what_came_out(run: Run) -> None:
    first = run("solve", "@knapsacks", "--solver", "greedy").out.splitlines()[0]
    assert first.startswith("tiny-means  knapsack  greedy  FEASIBLE  0.")


@pytest.mark.parametrize(("shipped", "solver"), [("knapsacks", "greedy"), ("coallocations", "static-50")])
def test_a_warm_start_is_taken_and_may_be_replaced(run: Run, tmp_path: Path, shipped: str, solver: str) -> None:
    lines = files("allocopt.data").joinpath(f"{shipped}.jsonl").read_text(encoding="utf-8").splitlines()
    instance = tmp_path / "one.json"
    instance.write_text(lines[0], encoding="utf-8")
    best = run("solve", instance, "--solution", tmp_path, "--json").rows[0]
    start = ("--warm-start", tmp_path / f"{best['instance']}.json", "--solver", solver, "--json")
    for more in ((), ("--solution", tmp_path)):
        assert run("solve", instance, *start, *more).rows[0]["objective"] == best["objective"]


@pytest.mark.slow
def test_too_many_jobs_are_counted(run: Run, tmp_path: Path) -> None:
    instance = tmp_path / "many.json"
    assert run("generate", "knapsack", "--jobs", "10001", "--out", instance).code == 0
    assert "it has 10,001 jobs, the most taken are 10,000" in run("solve", instance).refusal(2)


@pytest.mark.slow
def test_a_model_can_be_exported(run: Run, tmp_path: Path) -> None:
    instance, model = tmp_path / "one.json", tmp_path / "model.json"
    assert run("generate", "knapsack", "--nodes", "64", "--jobs", "5", "--out", instance).code == 0
    assert run("solve", instance, "--solver", "highs", "--export", model).code == 0
    assert json.loads(model.read_text(encoding="utf-8"))["columns"][0]["name"] == "y_1_0"


def test_solvers_of_coallocations_are_compared(run: Run) -> None:
    answer = run("bench", "@coallocations", "--solvers", "scip,greedy", "--json")
    assert answer.code == 0, answer.err
    assert {row["solver"] for row in answer.rows} == {"scip", "greedy"}
    assert "mean objective" in answer.err


def test_kinds_are_compared_side_by_side(run: Run, save: Callable[..., Path], tmp_path: Path) -> None:
    knapsacks = tmp_path / "k.jsonl"
    assert run("generate", "knapsack", "--nodes", "64", "--jobs", "8", "--count", "2", "--out", knapsacks).code == 0
    (tmp_path / "best_known.json").write_text(json.dumps({"knapsack-000": {"": {"objective": 9.0, "proved": False}}}))
    arguments = ("--solvers", "dp,greedy", "--strategy", "scas,free", "--json")
    answer = run("bench", knapsacks, save(paper_window(0)), *arguments)
    assert [(row["instance"], row["strategy"], row["solver"]) for row in answer.rows] == [
        *((f"knapsack-{index:03d}", None, solver) for index in range(2) for solver in ("dp", "greedy")),
        ("paper-0", "scas", "dp"),
        ("paper-0", "free", "greedy"),
    ]
    assert [row["best_known"] for row in answer.rows[:4]] == [9.0, 9.0, None, None]
    assert "mean objective" in answer.err
    gap = 100 * (9.0 - answer.rows[0]["objective"]) / 9.0
    (line,) = (line for line in answer.err.splitlines() if line.startswith("| dp     | - "))
    assert f"{gap:.3f}" in line


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("knapsack", "--objective linear --resources 3 --slots 2 --jobs 6"),
        ("coallocation", "--hosts 4 --guests 3 --objective response --max-guests 2"),
    ],
)
def test_options_of_a_kind_reach_the_problem(run: Run, tmp_path: Path, kind: str, options: str) -> None:
    out = tmp_path / "made.jsonl"
    assert run("generate", kind, "--out", out, "--count", "2", *options.split()).code == 0
    problem: Any = read_problems(out)[0]
    assert (problem.kind, problem.name) == (kind, f"{kind}-000")
    if kind == "knapsack":
        assert (problem.resources, len(problem.slots)) == (("nodes", "licenses", "memory_gb"), 2)
    else:
        assert (len(problem.hosts), problem.max_guests) == (4, 2)
