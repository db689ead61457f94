"""Co-allocations on the command line: solved, verified, compared, generated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allocopt.problems.instances import read_problems

Run = Callable[..., Any]

KEYS = ["instance", "kind", "strategy", "solver", "status", "objective", "bound", "gap", "runtime_s", "seed"]


@pytest.mark.slow
def test_a_row_has_the_keys_of_the_design_and_no_strategy(run: Run) -> None:
    answer = run("solve", "@coallocations", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert [list(row) for row in answer.rows] == [KEYS] * 5
    for row in answer.rows:
        assert (row["kind"], row["strategy"], row["status"]) == ("coallocation", None, "OPTIMAL")
        assert row["bound"] == row["objective"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "cp-sat", "greedy"])
def test_verify_accepts_what_solvers_write(run: Run, tmp_path: Path, solver: str) -> None:
    rows = run("solve", "@coallocations", "--solver", solver, "--solution", tmp_path, "--json").rows
    for row in rows:
        path = tmp_path / f"{row['instance']}.json"
        verified = run("verify", "@coallocations", path)
        assert verified.code == 0, verified.err
        assert f"{path}: valid, coallocation, objective" in verified.out
        held = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**held, "placements": held["placements"][1:]}), encoding="utf-8")
        assert run("verify", "@coallocations", path).code == 3


def test_solvers_are_compared(run: Run) -> None:
    answer = run("bench", "@coallocations", "--solvers", "scip,greedy", "--json")
    assert answer.code == 0, answer.err
    assert {row["solver"] for row in answer.rows} == {"scip", "greedy"}
    assert "mean objective" in answer.err


def test_a_warm_start_is_taken(run: Run, tmp_path: Path) -> None:
    best = run("solve", "@coallocations", "--solution", tmp_path, "--json").rows[0]
    instance = tmp_path / "one.json"
    instance.write_text(json.dumps(first_shipped()), encoding="utf-8")
    start = ("--warm-start", tmp_path / f"{best['instance']}.json", "--solver", "static-50", "--json")
    assert run("solve", instance, *start).rows[0]["objective"] == best["objective"]


def first_shipped() -> Any:
    path = Path(__file__).parents[3] / "allocopt" / "data" / "coallocations.jsonl"
    return json.loads(path.read_text(encoding="utf-8").splitlines()[0])


def test_what_a_solver_does_not_take_is_refused(run: Run) -> None:
    answer = run("solve", "@coallocations", "--solver", "lns")
    assert answer.code == 2
    assert "'lns' does not take coallocation problems; solvers that do: assignment, auto, cp-sat" in answer.err
    answer = run("solve", "@coallocations", "--solver", "assignment")
    assert answer.code == 2
    assert "it lets 2 guests share a host" in answer.err


def test_the_seed_alone_decides_the_bytes(run: Run, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    options = ("--hosts", "4", "--guests", "3", "--objective", "response", "--max-guests", "2", "--count", "2")
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        assert run("generate", "coallocation", "--out", path, "--seed", str(seed), *options).code == 0
    same, again, other = (path.read_bytes() for path in paths)
    assert same == again != other
    case: Any = read_problems(paths[0])[0]
    assert (case.kind, case.name, len(case.hosts), case.max_guests) == ("coallocation", "coallocation-000", 4, 2)


@pytest.mark.parametrize(
    ("options", "fault"),
    [(["--max-slowdown", "0.5"], "max_slowdown: is 0.5"), (["--prefix", "a/b"], "cannot name instances")],
)
def test_senseless_numbers_are_refused(run: Run, tmp_path: Path, options: list[str], fault: str) -> None:
    answer = run("generate", "coallocation", "--out", tmp_path / "c.json", *options)
    assert answer.code == 2
    assert fault in answer.err
