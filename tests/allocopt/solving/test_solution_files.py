"""Solution files, and the check of what they claim."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.coallocations import job, problem, solution
from support.knapsacks import knapsack, selection

from allocopt.cluster.topology import FatTree
from allocopt.errors import BadFileError, InvalidSolutionError
from allocopt.files.models import SolutionModel, validated
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.kind import kind_of
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solution_files import check_solution, object_from_result, read_solution, write_solution


def stored_solution(problem: Problem, result: Result) -> SolutionModel:
    """Return a result as it is read from its file."""
    return validated(kind_of(problem).codec.solution_model, object_from_result(problem, result), problem.name)


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


WINDOW = (PROBLEM, RESULT)
KNAPSACK = (
    knapsack([2, 3, 2], 5, "linear", slots=(3, 2), name="k"),
    replace(RESULT, objective=5.0, bound=5.0, solution=selection(1, 2, slots=(0, 1))),
)
SHARED = problem([job("h", 8, remaining=100)], [job("g", 2), job("i", 2)], name="c")
PLACED = solution((0, 0, 20))
COALLOCATION = (
    SHARED,
    replace(RESULT, status=Status.FEASIBLE, objective=SHARED.objective(PLACED), bound=None, solution=PLACED),
)
KINDS = pytest.mark.parametrize(
    ("posed", "result"), [WINDOW, KNAPSACK, COALLOCATION], ids=["topology", "knapsack", "coallocation"]
)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_result_survives_its_file_and_is_right(tmp_path: Path, name: str, strategy: Strategy) -> None:
    posed = PROBLEM.with_strategy(strategy)
    write_solution(tmp_path / name, posed, RESULT)
    stored = read_solution(str(tmp_path / name))
    assert stored == stored_solution(posed, RESULT)
    assert stored.strategy == strategy
    assert check_solution(PROBLEM, stored) == 2000.0


@pytest.mark.parametrize(
    ("posed", "result", "strategy", "answer"),
    [
        (*WINDOW, "free", {"allocation": {"a": [0, 1], "b": [3]}}),
        (*KNAPSACK, None, {"slots": {"job-1": 0, "job-2": 1}, "selected": ["job-1", "job-2"]}),
        (*COALLOCATION, None, {"placements": [{"guest": "g", "host": "h", "quota": 0.2}]}),
    ],
)
def test_a_file_holds_the_keys_of_the_format_and_no_time(
    tmp_path: Path, posed: Problem, result: Result, strategy: str | None, answer: dict[str, object]
) -> None:
    write_solution(tmp_path / "a.json", posed, result)
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "format": "allocopt-solution",
        "version": 1,
        "instance": posed.name,
        "strategy": strategy,
        "solver": "dp",
        "status": result.status.value,
        "objective": result.objective,
        "bound": result.bound,
        "seed": 7,
        "solver_version": "1.2",
        **answer,
    }
    stored = read_solution(tmp_path / "a.json")
    assert stored == stored_solution(posed, result)
    assert check_solution(posed, stored) == result.objective


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


@KINDS
def test_what_is_not_known_is_null_and_never_nan(tmp_path: Path, posed: Problem, result: Result) -> None:
    stored = stored_solution(posed, result)
    nothing = replace(result, status=Status.UNKNOWN, objective=float("nan"), bound=float("-inf"), solution=None)
    write_solution(tmp_path / "a.json", posed, nothing)
    held = json.loads((tmp_path / "a.json").read_text())
    assert (held["objective"], held["bound"], held[stored.answer_key]) == (None, None, None)
    with pytest.raises(InvalidSolutionError, match=r"holds no [-a-z]+, its status is UNKNOWN"):
        check_solution(posed, read_solution(tmp_path / "a.json"))


def test_no_placement_is_an_answer(tmp_path: Path) -> None:
    posed, result = COALLOCATION
    write_solution(tmp_path / "a.json", posed, replace(result, objective=0.0, solution=solution()))
    assert check_solution(posed, read_solution(tmp_path / "a.json")) == 0.0


@pytest.mark.parametrize(
    ("case", "changes", "words"),
    [
        (WINDOW, {"instance": "other"}, "is for instance 'other', not for 'small'"),
        (WINDOW, {"objective": 1999.0}, "stated objective is 1999.0, recomputed it is 2000"),
        (WINDOW, {"objective": None}, "stated objective is None"),
        (WINDOW, {"bound": 2001.0}, "stated bound 2001.0 excludes"),
        (WINDOW, {"bound": 1000.0}, "status is OPTIMAL, but the bound 1000.0 is below 2000"),
        (WINDOW, {"status": Status.INFEASIBLE}, "status is INFEASIBLE, but there is an allocation"),
        (WINDOW, {"allocation": {"a": [0, 1]}}, "job 'b' has no nodes"),
        (WINDOW, {"allocation": {"a": [0, 1], "b": [2**63 - 1]}}, "which is not idle"),
        (WINDOW, {"allocation": {"a": [0, 2], "b": [3]}, "strategy": Strategy.SCAS}, "scas: job 'a' is not contiguous"),
        (WINDOW, {"allocation": {"a": [0, 2], "b": [3]}}, "stated objective is 2000.0, recomputed it is 4000"),
        (KNAPSACK, {"bound": 4.0}, "stated bound 4.0 excludes"),
        (KNAPSACK, {"bound": 6.0}, "status is OPTIMAL, but the bound 6.0 is above 5"),
        (KNAPSACK, {"status": Status.INFEASIBLE}, "status is INFEASIBLE, but there is a selection"),
        (KNAPSACK, {"selected": ["job-1", "x"]}, "job 'x' is not in the instance"),
        (KNAPSACK, {"slots": None}, "2 jobs are selected, but 0 slots are given"),
        (COALLOCATION, {"placements": [{"guest": "g", "host": "h", "quota": 0.9}]}, "'h' has slowdown"),
    ],
)
def test_a_claim_that_does_not_hold_is_refused(
    case: tuple[Problem, Result], changes: dict[str, Any], words: str
) -> None:
    model = stored_solution(*case)
    changed = type(model).model_validate({**model.model_dump(mode="json"), **changes})
    with pytest.raises(InvalidSolutionError, match=words):
        check_solution(case[0], changed)


def test_a_solution_of_another_kind_is_refused() -> None:
    other = stored_solution(replace(PROBLEM, name="k"), RESULT)
    with pytest.raises(InvalidSolutionError, match="the solution is for a topology problem, 'k' is a knapsack"):
        check_solution(KNAPSACK[0], other)


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        # A weaker claim, any order of nodes and jobs, and a solution without an order of placement.
        (WINDOW, {"bound": None}),
        (WINDOW, {"bound": 10.0, "status": Status.FEASIBLE}),
        (WINDOW, {"allocation": {"b": [3], "a": [1, 0]}}),
        ((NESTED, NESTED_RESULT), {"order": None}),
    ],
)
def test_what_says_less_or_in_another_order_is_taken_too(case: tuple[Problem, Result], changes: dict[str, Any]) -> None:
    assert check_solution(case[0], stored_solution(*case).model_copy(update=changes)) == case[1].objective


@pytest.mark.parametrize(
    ("case", "key", "value", "place", "words"),
    [
        (WINDOW, "format", "allocopt-instance", "format", "must be 'allocopt-solution'"),
        (WINDOW, "version", 2, "version", "this program reads version 1"),
        (WINDOW, "strategy", "best", "strategy", "is 'best', must be 'scas', 'dcas' or 'free'"),
        (WINDOW, "status", "optimal", "status", "is 'optimal', must be 'OPTIMAL', 'FEASIBLE'"),
        (WINDOW, "objective", "5", "objective", "is '5', must be a valid number"),
        (WINDOW, "bound", True, "bound", "is true, must be a valid number"),
        (WINDOW, "allocation", [[0, 1]], "allocation", "is a list, must be a valid dictionary"),
        (WINDOW, "allocation", {"a": [0, 1.5]}, "allocation.a[1]", "is 1.5, must be a valid integer"),
        (WINDOW, "allocation", {"a": [-1]}, "allocation.a[0]", "is -1, must be greater than or equal to 0"),
        (WINDOW, "allocation", {"a": 1}, "allocation.a", "is 1, must be a valid list"),
        (WINDOW, "allocation", {"": [1]}, "allocation", "a key is '', string should have at least 1 character"),
        (WINDOW, "alocation", {}, "alocation", "is an unknown key"),
        (WINDOW, "instance", "../x", "instance", "holds '/'"),
        (WINDOW, "order", ["a", 2], "order[1]", "is 2, must be"),
        (KNAPSACK, "strategy", "free", "strategy", "is 'free', must be None"),
    ],
)
def test_a_fault_of_the_file_names_its_place(
    tmp_path: Path, case: tuple[Problem, Result], key: str, value: object, place: str, words: str
) -> None:
    path = tmp_path / "a.json"
    write_solution(path, *case)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(BadFileError) as caught:
        read_solution(path)
    assert str(caught.value).startswith(f"{path}: {place}: ")
    assert words in str(caught.value)


def test_a_solution_without_the_key_of_any_kind_is_told(tmp_path: Path) -> None:
    path = tmp_path / "solution.json"
    path.write_text('{"format": "allocopt-solution", "version": 1, "strategy": null}', encoding="utf-8")
    with pytest.raises(
        BadFileError, match=r"json: top level: has none of the keys placements, selected, placed, steps, allocation"
    ):
        read_solution(path)


def test_a_solution_of_a_nameless_instance_is_not_written(tmp_path: Path) -> None:
    nameless = replace(PROBLEM, name="")
    with pytest.raises(BadFileError, match="cannot be written: instance: is '', string should have at least 1"):
        write_solution(tmp_path / "a.json", nameless, RESULT)
    assert list(tmp_path.iterdir()) == []
