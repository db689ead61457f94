"""``allocopt solve``, ``verify`` and ``bench`` of every kind: rows, solution files, warm starts, models, options."""

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from support.program import Run
from support.windows import paper_window

from allocopt.problems.instances import read_problems
from allocopt.solving.protocol import get_solver, solver_names
from allocopt.solving.solution_files import read_solution

KEYS = ["instance", "kind", "strategy", "solver", "status", "objective", "bound", "gap", "runtime_s", "seed"]
TINY_SCAS = {"tiny-fat-tree-0": 15000.0, "tiny-fat-tree-1": 32533.333333, "tiny-four-levels": 29466.666667}
SCAS = ("--solver", "dp", "--strategy", "scas")


@pytest.mark.parametrize(
    ("shipped", "how", "count"),
    [
        ("tiny", SCAS, 3),
        ("knapsacks", (), 4),
        pytest.param("coallocations", (), 5, marks=pytest.mark.slow),
    ],
)
def test_a_json_row_has_the_keys_of_the_design_in_their_order(
    run: Run, shipped: str, how: tuple[str, ...], count: int
) -> None:
    answer = run("solve", f"@{shipped}", *how, "--seed", "7", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert [list(row) for row in answer.rows] == [KEYS] * count
    same = ("topology", "scas") if shipped == "tiny" else (shipped.removesuffix("s"), None)
    for row in answer.rows:
        assert (row["kind"], row["strategy"], row["status"], row["gap"], row["seed"]) == (*same, "OPTIMAL", 0.0, 7)
        assert row["bound"] == row["objective"]
        assert row["runtime_s"] > 0
    if shipped == "tiny":
        assert {row["instance"]: row["objective"] for row in answer.rows} == pytest.approx(TINY_SCAS)


def test_what_is_not_known_is_null(run: Run) -> None:
    row = run("solve", "@tiny", "--solver", "sequential", "--json").rows[0]
    assert (row["status"], row["bound"], row["gap"]) == ("FEASIBLE", None, None)


def test_without_json_a_line_says_what_came_out(run: Run, tmp_path: Path) -> None:
    first, *_ = run("solve", "@tiny", *SCAS).out.splitlines()
    assert first.startswith("tiny-fat-tree-0  scas  dp  OPTIMAL  15,000.0  gap 0.000 %  ")
    assert first.endswith(" s  certified")
    first, *_ = run("solve", "@knapsacks", "--solver", "greedy").out.splitlines()
    assert first.startswith("tiny-means  knapsack  greedy  FEASIBLE  0.")
    lines = run("solve", "@placements", "--solver", "cons-tres", "--solution", tmp_path).out.splitlines()
    for problem, line in zip(read_problems("@placements"), lines, strict=True):
        placed = json.loads((tmp_path / f"{problem.name}.json").read_text(encoding="utf-8"))["placed"]
        left_out = len(problem.jobs) - sum(map(bool, placed.values()))
        assert re.search(rf" s  (certified|not checked)  {left_out} of {len(problem.jobs)} jobs left out$", line)


def test_every_instance_of_every_file_is_solved(run: Run, save: Callable[..., Path]) -> None:
    several = save(paper_window(0), paper_window(1))
    one = save(paper_window(2), name="one.json.gz")
    rows = run("solve", several, one, "--solver", "greedy", "--json").rows
    assert [row["instance"] for row in rows] == ["paper-0", "paper-1", "paper-2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shipped", "solver", "held"),
    [
        *(("@tiny", name, "allocation") for name in solver_names() if get_solver(name).capabilities.strategies),
        *(("@knapsacks", solver, "selected") for solver in ("auto", "scip", "greedy")),
        *(("@coallocations", solver, "placements") for solver in ("auto", "cp-sat", "greedy")),
    ],
)
def test_verify_accepts_what_solvers_write_and_nothing_less(
    run: Run, tmp_path: Path, shipped: str, solver: str, held: str
) -> None:
    how: tuple[str, ...] = ("--solver", solver, "--iterations", "100")
    if shipped == "@tiny":
        how += ("--strategy", max(get_solver(solver).capabilities.strategies))
    rows = run("solve", shipped, *how, "--solution", tmp_path, "--json").rows
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{row['instance']}.json" for row in rows)
    for row in rows:
        path = tmp_path / f"{row['instance']}.json"
        verified = run("verify", shipped, path)
        assert (verified.code, verified.err) == (0, "")
        assert f"{path}: valid, {row['strategy'] or row['kind']}, objective" in verified.out
        model = read_solution(path)
        same = ("strategy", "solver", "status", "objective", "bound", "seed")
        assert [getattr(model, name) for name in same] == [row[name] for name in same]
        stored = json.loads(path.read_text(encoding="utf-8"))
        less = dict(list(stored[held].items())[1:]) if held == "allocation" else stored[held][1:]
        slots = {"slots": None} if shipped == "@knapsacks" else {}
        path.write_text(json.dumps({**stored, held: less, **slots}), encoding="utf-8")
        assert run("verify", shipped, path).code == 3


def test_a_valid_solution_is_said_to_be_with_all_its_digits(run: Run, tiny: Path, tmp_path: Path) -> None:
    assert run("solve", tiny, *SCAS, "--solution", tmp_path).code == 0
    path = tmp_path / "tiny-fat-tree-0.json"
    said = f"{path}: valid, scas, objective 15000; its bound 15000 is consistent, but not proved again; use --bound\n"
    for instances in (tiny, "@tiny"):
        answer = run("verify", instances, path)
        assert (answer.code, answer.out, answer.err) == (0, said, "")
    rows = run("solve", "@knapsacks", "--solution", tmp_path, "--json").rows
    objective = next(row["objective"] for row in rows if row["instance"] == "tiny-turnaround")
    assert -1e-5 < objective < -1e-6
    shown = run("verify", "@knapsacks", tmp_path / "tiny-turnaround.json").out.split("objective ")[1].split(";")[0]
    assert float(shown) == pytest.approx(objective, rel=1e-9)


@pytest.mark.parametrize(("shipped", "solver"), [("knapsacks", "greedy"), ("coallocations", "static-50")])
def test_a_warm_start_is_taken_and_may_be_replaced(run: Run, tmp_path: Path, shipped: str, solver: str) -> None:
    lines = files("allocopt.data").joinpath(f"{shipped}.jsonl").read_text(encoding="utf-8").splitlines()
    instance = tmp_path / "one.json"
    instance.write_text(lines[0], encoding="utf-8")
    best = run("solve", instance, "--solution", tmp_path, "--json").rows[0]
    start = ("--warm-start", tmp_path / f"{best['instance']}.json", "--solver", solver, "--json")
    for more in ((), ("--solution", tmp_path)):
        assert run("solve", instance, *start, *more).rows[0]["objective"] == best["objective"]


def test_options_reach_the_solver(run: Run, tiny: Path) -> None:
    arguments = ("solve", tiny, "--solver", "annealing", "--strategy", "dcas", "--json")
    sizes = ("--option", "steps=1", "--option", "most-removed=1")
    few, many = run(*arguments, *sizes).rows[0], run(*arguments).rows[0]
    assert few["objective"] > many["objective"]
    assert "temperatures must fall" in run(*arguments, "--option", "coldest=9").refusal(2)


def test_the_log_of_a_solve_goes_to_standard_error(run: Run, tiny: Path) -> None:
    answer = run("solve", tiny, *SCAS, "--verbose", "--json")
    assert len(answer.rows) == 1
    assert answer.lines_of_error[0].startswith("allocopt ")
    assert f"objective  {answer.rows[0]['objective']:,.1f}" in answer.lines_of_error
    assert "status     OPTIMAL (proved)" in answer.lines_of_error


def test_there_is_an_answer_at_any_limit(run: Run, save: Callable[..., Path]) -> None:
    window = save(paper_window(0), name="window.json")
    for limit in ("1e-9", "1e308", "inf"):
        row = run("solve", window, *SCAS, "--time-limit", limit, "--json").rows[0]
        assert row["status"] == ("FEASIBLE" if limit == "1e-9" else "OPTIMAL")


def test_excluded_nodes_are_given_to_nobody(run: Run, save: Callable[..., Path], tmp_path: Path) -> None:
    problem = paper_window(0)
    first, second, *_ = problem.idle_nodes.tolist()
    nodes = f"{first},{second}-{second}"
    assert run("solve", save(problem), "--exclude-nodes", nodes, "--solution", tmp_path, "--solver", "lns").code == 0
    given = read_solution(tmp_path / "paper-0.json").answer
    assert not {first, second} & {node for held in given.values() for node in held}


@pytest.mark.slow
def test_a_generated_knapsack_is_exported_or_has_too_many_jobs(run: Run, tmp_path: Path) -> None:
    instance, model = tmp_path / "one.json", tmp_path / "model.json"
    assert run("generate", "knapsack", "--nodes", "64", "--jobs", "5", "--out", instance).code == 0
    assert run("solve", instance, "--solver", "highs", "--export", model).code == 0
    assert json.loads(model.read_text(encoding="utf-8"))["columns"][0]["name"] == "y_1_0"
    assert run("generate", "knapsack", "--jobs", "10001", "--out", instance).code == 0
    assert "it has 10,001 jobs, at most 10,000 are supported" in run("solve", instance).refusal(2)


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
    ("kind", "options", "fields"),
    [
        (
            "knapsack",
            "--objective linear --resources 3 --slots 2 --jobs 6",
            {"resources": ("nodes", "licenses", "memory_gb"), "slots": 2},
        ),
        (
            "coallocation",
            "--hosts 4 --guests 3 --objective response --max-guests 2",
            {"hosts": 4, "guests": 3, "max_guests": 2},
        ),
    ],
)
def test_options_of_a_kind_reach_the_problem(
    run: Run, tmp_path: Path, kind: str, options: str, fields: dict[str, Any]
) -> None:
    out = tmp_path / "made.jsonl"
    assert run("generate", kind, "--out", out, "--count", "2", *options.split()).code == 0
    problem: Any = read_problems(out)[0]
    assert (problem.kind, problem.name) == (kind, f"{kind}-000")
    for name, value in fields.items():
        held = getattr(problem, name)
        assert (len(held) if isinstance(value, int) and not isinstance(held, int) else held) == value
