"""Knapsacks on the command line: solved, verified, compared, generated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.windows import paper_window

from allocopt.problems.instances import read_problems

Run = Callable[..., Any]

KEYS = ["instance", "kind", "strategy", "solver", "status", "objective", "bound", "gap", "runtime_s", "seed"]


def test_a_row_has_the_keys_of_the_design_and_no_strategy(run: Run) -> None:
    answer = run("solve", "@knapsacks", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert [list(row) for row in answer.rows] == [KEYS] * 4
    for row in answer.rows:
        assert (row["kind"], row["strategy"], row["status"]) == ("knapsack", None, "OPTIMAL")
        assert row["bound"] == row["objective"]


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "scip", "greedy"])
def test_verify_accepts_what_solvers_write(run: Run, tmp_path: Path, solver: str) -> None:
    rows = run("solve", "@knapsacks", "--solver", solver, "--solution", tmp_path, "--json").rows
    for row in rows:
        path = tmp_path / f"{row['instance']}.json"
        verified = run("verify", "@knapsacks", path)
        assert verified.code == 0, verified.err
        assert f"{path}: valid, knapsack, objective" in verified.out
        held = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**held, "selected": held["selected"][1:], "slots": None}), encoding="utf-8")
        assert run("verify", "@knapsacks", path).code == 3


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


def test_a_warm_start_is_taken(run: Run, tmp_path: Path) -> None:
    instance = tmp_path / "one.json"
    assert run("generate", "knapsack", "--nodes", "64", "--jobs", "8", "--out", instance).code == 0
    best = run("solve", instance, "--solution", tmp_path, "--json").rows[0]
    start = ("--warm-start", tmp_path / "knapsack.json", "--solver", "greedy", "--json")
    assert run("solve", instance, *start).rows[0]["objective"] == best["objective"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--strategy", "free"], "strategy: tiny-means: a knapsack problem takes none"),
        (["--exclude-nodes", "1"], "exclude_nodes: tiny-means: a knapsack problem takes none"),
        (["--solver", "lns"], "'lns' does not take knapsack problems; solvers that do: auto, cp-sat, dp, greedy"),
    ],
)
def test_what_a_knapsack_does_not_take_is_refused(run: Run, arguments: list[str], fault: str) -> None:
    answer = run("solve", "@knapsacks", *arguments)
    assert answer.code == 2
    assert fault in answer.err


@pytest.mark.slow
def test_too_many_jobs_are_counted(run: Run, tmp_path: Path) -> None:
    instance = tmp_path / "many.json"
    assert run("generate", "knapsack", "--jobs", "10001", "--out", instance).code == 0
    answer = run("solve", instance)
    assert answer.code == 2
    assert "it has 10,001 jobs, the most taken are 10,000" in answer.err


@pytest.mark.slow
def test_a_model_can_be_exported(run: Run, tmp_path: Path) -> None:
    instance, model = tmp_path / "one.json", tmp_path / "model.json"
    assert run("generate", "knapsack", "--nodes", "64", "--jobs", "5", "--out", instance).code == 0
    assert run("solve", instance, "--solver", "highs", "--export", model).code == 0
    assert json.loads(model.read_text(encoding="utf-8"))["columns"][0]["name"] == "y_1_0"


def test_kinds_are_compared_side_by_side(run: Run, save: Callable[..., Path], tmp_path: Path) -> None:
    knapsacks = tmp_path / "k.jsonl"
    assert run("generate", "knapsack", "--nodes", "64", "--jobs", "8", "--count", "2", "--out", knapsacks).code == 0
    (tmp_path / "best_known.json").write_text(json.dumps({"knapsack-000": {"": {"objective": 9.0, "proved": False}}}))
    arguments = ("--solvers", "dp,greedy", "--strategy", "scas,free", "--json")
    answer = run("bench", knapsacks, save(paper_window(0)), *arguments)
    assert [(row["instance"], row["strategy"], row["solver"]) for row in answer.rows] == [
        ("knapsack-000", None, "dp"),
        ("knapsack-000", None, "greedy"),
        ("knapsack-001", None, "dp"),
        ("knapsack-001", None, "greedy"),
        ("paper-0", "scas", "dp"),
        ("paper-0", "free", "greedy"),
    ]
    assert [row["best_known"] for row in answer.rows[:4]] == [9.0, 9.0, None, None]
    assert "mean objective" in answer.err
    gap = 100 * (9.0 - answer.rows[0]["objective"]) / 9.0
    (line,) = (line for line in answer.err.splitlines() if line.startswith("| dp     | - "))
    assert f"{gap:.3f}" in line


def test_a_solver_that_takes_no_knapsack_is_refused_in_a_comparison_of_knapsacks(run: Run) -> None:
    answer = run("bench", "@knapsacks", "--solvers", "lns")
    assert answer.code == 2
    assert "solver 'lns' does not take knapsack; it takes topology problems" in answer.err


def test_the_seed_alone_decides_the_bytes(run: Run, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    options = ("--objective", "linear", "--resources", "3", "--slots", "2", "--jobs", "6", "--count", "2")
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        assert run("generate", "knapsack", "--out", path, "--seed", str(seed), *options).code == 0
    same, again, other = (path.read_bytes() for path in paths)
    assert same == again != other
    problem = read_problems(paths[0])[0]
    assert (problem.kind, problem.name, problem.resources, len(problem.slots)) == (  # type: ignore[attr-defined]
        "knapsack",
        "knapsack-000",
        ("nodes", "licenses", "memory_gb"),
        2,
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--load", "1"], "the load is 1.0"),
        (["--nodes", "4", "--unit", "8"], "do not fit a machine of 4 nodes"),
        (["--nodes", "4", "--slots", "3"], "2 free nodes cannot come in 3 slots"),
        (["--prefix", "a/b"], "cannot name instances"),
    ],
)
def test_senseless_numbers_are_refused(run: Run, tmp_path: Path, options: list[str], fault: str) -> None:
    answer = run("generate", "knapsack", "--out", tmp_path / "k.json", *options)
    assert answer.code == 2
    assert fault in answer.err
