"""``allocopt verify``: exit code 0 for a valid solution with the right objective, else 3 and the reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def solution(run: Run, tiny: Path, tmp_path: Path) -> Path:
    """Solution file of the first shipped window under scas, whose optimum is 15000."""
    assert run("solve", tiny, "--solver", "dp", "--strategy", "scas", "--solution", tmp_path).code == 0
    return tmp_path / "tiny-fat-tree-0.json"


def test_a_valid_solution_is_said_to_be(run: Run, tiny: Path, solution: Path) -> None:
    answer = run("verify", tiny, solution)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"{solution}: valid, scas, objective 15000; its bound 15000 fits, and is the solver's word\n"


def test_the_instance_is_found_among_several_by_its_name(run: Run, solution: Path) -> None:
    assert run("verify", "@tiny", solution).code == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"objective": 15000.1}, "the stated objective is 15000.1, recomputed it is 15000"),
        ({"objective": None}, "the stated objective is None"),
        ({"bound": 15001.0}, "the stated bound 15001.0 excludes the solution"),
        ({"bound": 14000.0}, "the status is OPTIMAL, but the bound 14000.0 is below 15000"),
        ({"status": "UNKNOWN"}, "the status is UNKNOWN, but there is an allocation"),
        ({"allocation": None}, "the solution holds no allocation"),
        ({"allocation": {}}, "job '1' has no nodes"),
        ({"allocation": {"1": [0, 3, 4], "2": [8, 9, 10, 11]}}, "job '1' gets 3 nodes, asks for 4"),
        ({"allocation": {"1": [3, 4, 5, 7], "2": [8, 9, 10, 11]}}, "job '1' gets node 7, which is not idle"),
        ({"allocation": {"1": [3, 4, 5, 5], "2": [8, 9, 10, 11]}}, "job '1' gets a node twice"),
        ({"allocation": {"1": [3, 4, 5, 8], "2": [8, 9, 10, 11]}}, "job '2' gets node 8, which job '1' has already"),
        ({"allocation": {"1": [3, 4, 5, 8], "2": [6, 9, 10, 11]}}, "scas: job '1' is not contiguous"),
        ({"instance": "another"}, "instance: 'another' is not in"),
        ({"strategy": "best"}, "strategy: is 'best', must be 'scas', 'dcas' or 'free'"),
        ({"version": 2}, "version: is 2, this program reads version 1"),
    ],
)
def test_a_wrong_solution_is_refused_with_the_reason(
    run: Run, tiny: Path, solution: Path, change: dict[str, Any], reason: str
) -> None:
    solution.write_text(json.dumps({**json.loads(solution.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    answer = run("verify", tiny, solution)
    assert (answer.code, answer.out) == (3, "")
    (line,) = answer.lines_of_error
    assert line.startswith(f"allocopt: {solution}: {reason}")


def test_the_order_of_a_dcas_solution_is_checked(run: Run, tiny: Path, tmp_path: Path) -> None:
    assert run("solve", tiny, "--solver", "dp", "--strategy", "dcas", "--solution", tmp_path).code == 0
    path = tmp_path / "tiny-fat-tree-0.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    assert sorted(held["order"]) == sorted(held["allocation"])
    assert run("verify", tiny, path).code == 0
    path.write_text(json.dumps({**held, "order": held["order"][:1]}), encoding="utf-8")
    answer = run("verify", tiny, path)
    assert (answer.code, answer.out) == (3, "")
    (line,) = answer.lines_of_error
    assert line == f"allocopt: {path}: order: job {held['order'][1]!r} is missing"


def test_instance_and_solution_the_wrong_way_round_are_told_apart(run: Run, tiny: Path, solution: Path) -> None:
    assert "must be 'allocopt-solution'" in run("verify", tiny, tiny).err
    assert "must be 'allocopt-instance'" in run("verify", solution, solution).err
