"""``allocopt solve`` and ``verify``: rows, solution files, warm starts, exported models, options, refusals."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.program import Run
from support.windows import paper_window

from allocopt.solving.protocol import get_solver, solver_names
from allocopt.solving.solution_files import read_solution

KEYS = ["instance", "kind", "strategy", "solver", "status", "objective", "bound", "gap", "runtime_s", "seed"]
TINY_SCAS = {"tiny-fat-tree-0": 15000.0, "tiny-fat-tree-1": 32533.333333, "tiny-four-levels": 29466.666667}


def test_a_json_row_has_the_keys_of_the_design_in_their_order(run: Run) -> None:
    answer = run("solve", "@tiny", "--solver", "dp", "--strategy", "scas", "--seed", "7", "--json")
    assert answer.code == 0
    assert answer.err == ""
    assert [list(row) for row in answer.rows] == [KEYS] * 3
    assert {row["instance"]: row["objective"] for row in answer.rows} == pytest.approx(TINY_SCAS)
    for row in answer.rows:
        assert (row["kind"], row["strategy"], row["solver"], row["status"]) == ("topology", "scas", "dp", "OPTIMAL")
        assert (row["bound"], row["gap"], row["seed"]) == (row["objective"], 0.0, 7)
        assert row["runtime_s"] > 0


def test_what_is_not_known_is_null(run: Run) -> None:
    row = run("solve", "@tiny", "--solver", "sequential", "--json").rows[0]
    assert (row["status"], row["bound"], row["gap"]) == ("FEASIBLE", None, None)


def test_without_json_a_line_says_what_came_out(run: Run) -> None:
    first, *_ = run("solve", "@tiny", "--solver", "dp", "--strategy", "scas").out.splitlines()
    assert first.startswith("tiny-fat-tree-0  scas  dp  OPTIMAL  15,000.0  gap 0.000 %  ")
    assert first.endswith(" s")


def test_every_instance_of_every_file_is_solved(run: Run, save: Callable[..., Path]) -> None:
    several = save(paper_window(0), paper_window(1))
    one = save(paper_window(2), name="one.json.gz")
    rows = run("solve", several, one, "--solver", "greedy", "--json").rows
    assert [row["instance"] for row in rows] == ["paper-0", "paper-1", "paper-2"]


@pytest.mark.slow
@pytest.mark.parametrize("solver", [name for name in solver_names() if get_solver(name).capabilities.strategies])
def test_verify_accepts_what_every_solver_writes(run: Run, tmp_path: Path, tiny: Path, solver: str) -> None:
    strategy = max(get_solver(solver).capabilities.strategies)
    how = ("--solver", solver, "--strategy", strategy, "--iterations", "100")
    solved = run("solve", tiny, *how, "--solution", tmp_path / "out", "--json")
    assert solved.code == 0
    (row,) = solved.rows
    (path,) = (tmp_path / "out").iterdir()
    assert path.name == f"{row['instance']}.json"
    verified = run("verify", tiny, path)
    assert verified.code == 0, verified.err
    stored = read_solution(path)
    said = (stored.strategy, stored.solver, stored.status, stored.objective, stored.bound, stored.seed)
    assert said == tuple(row[key] for key in ("strategy", "solver", "status", "objective", "bound", "seed"))


def test_options_reach_the_solver(run: Run, tiny: Path) -> None:
    arguments = ("solve", tiny, "--solver", "annealing", "--strategy", "dcas", "--json")
    sizes = ("--option", "steps=1", "--option", "most-removed=1")
    few, many = run(*arguments, *sizes).rows[0], run(*arguments).rows[0]
    assert few["objective"] > many["objective"]
    refused = run(*arguments, "--option", "coldest=9")
    assert refused.code == 2
    assert "temperatures must fall" in refused.err


def test_improvements_go_to_standard_error(run: Run, tiny: Path) -> None:
    answer = run("solve", tiny, "--solver", "dp", "--strategy", "scas", "--verbose", "--json")
    assert len(answer.rows) == 1
    assert len(answer.lines_of_error) >= 2
    assert all(" s  objective " in line and " bound " in line for line in answer.lines_of_error)
    assert f"objective {answer.rows[0]['objective']:16.3f}" in answer.lines_of_error[-1]


def test_there_is_an_answer_at_any_limit(run: Run, save: Callable[..., Path]) -> None:
    window = save(paper_window(0), name="window.json")
    for limit in ("1e-9", "1e308", "inf"):
        row = run("solve", window, "--solver", "dp", "--strategy", "scas", "--time-limit", limit, "--json").rows[0]
        assert row["status"] == ("FEASIBLE" if limit == "1e-9" else "OPTIMAL")


def test_excluded_nodes_are_given_to_nobody(run: Run, save: Callable[..., Path], tmp_path: Path) -> None:
    problem = paper_window(0)
    first, second, *_ = problem.idle_nodes.tolist()
    nodes = f"{first},{second}-{second}"
    assert run("solve", save(problem), "--exclude-nodes", nodes, "--solution", tmp_path, "--solver", "lns").code == 0
    given = read_solution(tmp_path / "paper-0.json").allocation
    assert given is not None
    assert not {first, second} & {node for held in given.values() for node in held}


def test_a_valid_solution_is_said_to_be(run: Run, tiny: Path, tmp_path: Path) -> None:
    assert run("solve", tiny, "--solver", "dp", "--strategy", "scas", "--solution", tmp_path).code == 0
    solution = tmp_path / "tiny-fat-tree-0.json"
    for instances in (tiny, "@tiny"):
        answer = run("verify", instances, solution)
        assert (answer.code, answer.err) == (0, "")
        assert (
            answer.out == f"{solution}: valid, scas, objective 15000; its bound 15000 fits, and is the solver's word\n"
        )
