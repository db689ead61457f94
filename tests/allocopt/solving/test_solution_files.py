"""Solution files, and the check of what they claim."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.solutions import stored_solution

from allocopt.cluster.topology import FatTree
from allocopt.errors import BadFileError, InvalidSolutionError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solution_files import check_solution, read_solution, write_solution

# Leaves {0, 1} and {2, 3}: job "a" within a leaf costs (1000 / 2) * 2 * 2 hops = 2000, the lone node of "b" nothing.
PROBLEM = TopologyProblem(FatTree(1, 2, 2), np.arange(4), (Job("a", 2), Job("b", 1)), name="small")
RESULT = Result(
    status=Status.OPTIMAL,
    stopped_by=StopReason.PROVED,
    objective=np.float64(2000.0),
    bound=2000.0,
    runtime_s=0.5,
    solution=Allocation((np.array([0, 1]), np.array([3]))),
    seed=7,
    solver="dp",
    version="1.2",
)
STORED = stored_solution(PROBLEM, RESULT)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_result_survives_its_file_and_is_right(tmp_path: Path, name: str, strategy: Strategy) -> None:
    posed = PROBLEM.with_strategy(strategy)
    write_solution(tmp_path / name, posed, RESULT)
    stored = read_solution(str(tmp_path / name))
    assert stored == stored_solution(posed, RESULT)
    assert stored.strategy == strategy
    assert check_solution(PROBLEM, stored) == 2000.0


def test_a_file_holds_the_keys_of_the_format_and_no_time(tmp_path: Path) -> None:
    write_solution(tmp_path / "a.json", PROBLEM, RESULT)
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "format": "allocopt-solution",
        "version": 1,
        "instance": "small",
        "strategy": "free",
        "solver": "dp",
        "status": "OPTIMAL",
        "objective": 2000.0,
        "bound": 2000.0,
        "seed": 7,
        "solver_version": "1.2",
        "allocation": {"a": [0, 1], "b": [3]},
    }


NESTED = TopologyProblem(FatTree(1, 2, 3), np.arange(6), (Job("out", 2), Job("in", 2)), strategy=Strategy.DCAS)
NESTED_RESULT = replace(
    RESULT,
    status=Status.FEASIBLE,
    objective=6000.0,
    bound=None,
    solution=Allocation((np.array([0, 3]), np.array([1, 2]))),
)


def test_a_dcas_solution_comes_with_an_order_of_placement(tmp_path: Path) -> None:
    write_solution(tmp_path / "a.json", NESTED, NESTED_RESULT)
    assert json.loads((tmp_path / "a.json").read_text())["order"] == ["in", "out"]
    stored = read_solution(tmp_path / "a.json")
    assert stored.answer_key == "allocation"
    assert json.loads(stored.model_dump_json())["order"] == ["in", "out"]
    assert check_solution(NESTED, stored) == 4000.0 + 2000.0


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (("out", "in"), "order: job 'out', placed as number 1, is not contiguous: node 1 is between"),
        (("in",), "order: job 'out' is missing"),
        (("in", "out", "in"), "order: job 'in' is named twice"),
        (("in", "out", "x"), "order: job 'x' is not in the instance"),
    ],
)
def test_a_wrong_order_of_placement_is_refused(order: tuple[str, ...], words: str) -> None:
    with pytest.raises(InvalidSolutionError, match=words):
        check_solution(NESTED, stored_solution(NESTED, NESTED_RESULT).model_copy(update={"order": order}))


def test_a_solution_without_an_order_is_taken_too() -> None:
    assert check_solution(NESTED, stored_solution(NESTED, NESTED_RESULT).model_copy(update={"order": None})) == 6000.0


def test_what_is_not_known_is_null_and_never_nan(tmp_path: Path) -> None:
    nothing = replace(RESULT, status=Status.UNKNOWN, objective=float("nan"), bound=float("-inf"), solution=None)
    write_solution(tmp_path / "a.json", PROBLEM, nothing)
    held = json.loads((tmp_path / "a.json").read_text())
    assert (held["objective"], held["bound"], held["allocation"]) == (None, None, None)
    with pytest.raises(InvalidSolutionError, match="holds no allocation, its status is UNKNOWN"):
        check_solution(PROBLEM, read_solution(tmp_path / "a.json"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instance": "other"}, "is of instance 'other', not of 'small'"),
        ({"objective": 1999.0}, "stated objective is 1999.0, recomputed it is 2000"),
        ({"objective": None}, "stated objective is None"),
        ({"bound": 2001.0}, "stated bound 2001.0 excludes"),
        ({"bound": 1000.0}, "status is OPTIMAL, but the bound 1000.0 is below 2000"),
        ({"status": Status.INFEASIBLE}, "status is INFEASIBLE, but there is an allocation"),
        ({"allocation": {"a": [0, 1]}}, "job 'b' has no nodes"),
        ({"allocation": {"a": [0, 1], "b": [3], "c": [2]}}, "job 'c' is not in the instance"),
        ({"allocation": {"a": [0, 1], "b": [4]}}, "job 'b' gets node 4, which is not idle"),
        ({"allocation": {"a": [0, 1], "b": [2**63 - 1]}}, "which is not idle"),
        ({"allocation": {"a": [0, 1], "b": [1]}}, "job 'b' gets node 1, which job 'a' has already"),
        ({"allocation": {"a": [0, 0], "b": [1]}}, "job 'a' gets a node twice"),
        ({"allocation": {"a": [0, 1], "b": []}}, "job 'b' gets 0 nodes, asks for 1"),
        ({"allocation": {"a": [0, 2], "b": [3]}, "strategy": Strategy.SCAS}, "scas: job 'a' is not contiguous"),
        ({"allocation": {"a": [0, 2], "b": [3]}}, "stated objective is 2000.0, recomputed it is 4000"),
    ],
)
def test_a_claim_that_does_not_hold_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSolutionError, match=words):
        check_solution(PROBLEM, STORED.model_copy(update=changes))


@pytest.mark.parametrize("changes", [{"bound": None}, {"bound": 10.0, "status": Status.FEASIBLE}])
def test_a_weaker_claim_holds_too(changes: dict[str, Any]) -> None:
    assert check_solution(PROBLEM, STORED.model_copy(update=changes)) == 2000.0


def test_nodes_may_stand_in_any_order_and_jobs_too() -> None:
    assert check_solution(PROBLEM, STORED.model_copy(update={"allocation": {"b": [3], "a": [1, 0]}})) == 2000.0


@pytest.mark.parametrize(
    ("key", "value", "place", "words"),
    [
        ("format", "allocopt-instance", "format", "must be 'allocopt-solution'"),
        ("version", 2, "version", "this program reads version 1"),
        ("strategy", "best", "strategy", "is 'best', must be 'scas', 'dcas' or 'free'"),
        ("status", "optimal", "status", "is 'optimal', must be 'OPTIMAL', 'FEASIBLE'"),
        ("objective", "5", "objective", "is '5', must be a valid number"),
        ("bound", True, "bound", "is true, must be a valid number"),
        ("allocation", [[0, 1]], "allocation", "is a list, must be a valid dictionary"),
        ("allocation", {"a": [0, 1.5]}, "allocation.a[1]", "is 1.5, must be a valid integer"),
        ("allocation", {"a": [-1]}, "allocation.a[0]", "is -1, must be greater than or equal to 0"),
        ("allocation", {"a": 1}, "allocation.a", "is 1, must be a valid list"),
        ("allocation", {"": [1]}, "allocation", "a key is '', string should have at least 1 character"),
        ("alocation", {}, "alocation", "is an unknown key"),
        ("instance", "../x", "instance", "holds '/'"),
        ("order", ["a", 2], "order[1]", "is 2, must be"),
    ],
)
def test_a_fault_of_the_file_names_its_place(tmp_path: Path, key: str, value: object, place: str, words: str) -> None:
    path = tmp_path / "a.json"
    write_solution(path, PROBLEM, RESULT)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(BadFileError) as caught:
        read_solution(path)
    assert str(caught.value).startswith(f"{path}: {place}: ")
    assert words in str(caught.value)


def test_a_solution_of_a_nameless_instance_is_not_written(tmp_path: Path) -> None:
    nameless = replace(PROBLEM, name="")
    with pytest.raises(BadFileError, match="cannot be written: instance: is '', string should have at least 1"):
        write_solution(tmp_path / "a.json", nameless, RESULT)
    assert list(tmp_path.iterdir()) == []
