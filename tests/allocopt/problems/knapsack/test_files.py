"""Knapsacks in files: what is written is read again, and every fault is one line."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.knapsacks import knapsack, knapsacks, selection
from support.solutions import stored_solution

from allocopt.cluster.topology import FatTree
from allocopt.errors import BadFileError, InvalidSolutionError
from allocopt.problems.instances import object_from_problem, problem_from_object, read_problems, write_problems
from allocopt.problems.knapsack import KnapsackJob, KnapsackProblem
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solution_files import (
    BestKnown,
    check_solution,
    read_best_known,
    read_solution,
    write_best_known,
    write_solution,
)
from allocopt.solving.solve import solve

DESIGN_EXAMPLE: dict[str, Any] = {
    "format": "allocopt-instance",
    "version": 1,
    "kind": "knapsack",
    "name": "example",
    "capacity": {"nodes": 4360},
    "total": {"nodes": 4392},
    "used": {"nodes": 32},
    "jobs": [{"id": "1", "request": {"nodes": 128}, "wait_s": 60, "estimate_s": 3600, "value": 1.5}],
    "objective": "capability",
    "weights": [0.5, 0.25, 0.25],
}


def fields(problem: KnapsackProblem) -> tuple[object, ...]:
    names = ("capacity", "total", "used", "jobs", "reward", "slots", "name")
    weights = problem.weights if problem.reward == "capability" else None
    return (*(getattr(problem, name) for name in names), weights)


def test_the_example_of_the_design_is_read() -> None:
    problem = problem_from_object(DESIGN_EXAMPLE, "example")
    assert isinstance(problem, KnapsackProblem)
    assert (problem.size, problem.in_use, problem.free) == (4392, 32, 4360)
    assert object_from_problem(problem) == DESIGN_EXAMPLE


@given(problem=knapsacks(resources=2, slots=True))
def test_every_problem_survives_its_file(tmp_path: Path, problem: KnapsackProblem) -> None:
    write_problems(tmp_path / "k.json", [problem])
    (again,) = read_problems(tmp_path / "k.json")
    assert isinstance(again, KnapsackProblem)
    assert fields(again) == fields(problem)


def test_every_field_of_a_job_survives_its_file(tmp_path: Path) -> None:
    numbers = [field for field in dataclasses.fields(KnapsackJob) if field.name not in ("id", "request")]
    given = {field.name: place + (7 if field.type is int else 7.5) for place, field in enumerate(numbers)}
    full = KnapsackJob("a", {"nodes": 1}, **given)
    write_problems(tmp_path / "full.json", [KnapsackProblem({"nodes": 2}, (full,), name="full")])
    (read,) = read_problems(tmp_path / "full.json")
    assert isinstance(read, KnapsackProblem)
    assert read.jobs == (full,)


def test_kinds_may_be_mixed_in_a_file(tmp_path: Path) -> None:
    tiny = read_problems(Path(__file__).parents[4] / "allocopt" / "data" / "tiny.jsonl")[0]
    write_problems(tmp_path / "both.jsonl", [tiny, knapsack([1, 2], 2)])
    assert [problem.kind for problem in read_problems(tmp_path / "both.jsonl")] == ["topology", "knapsack"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": {}}, "capacity: is an empty object, dictionary should have at least 1 item"),
        ({"capacity": {"nodes": -1}}, "capacity.nodes: is -1, must be greater than or equal to 0"),
        ({"capacity": {"nodes": 1.5}}, "capacity.nodes: is 1.5, must be a valid integer"),
        ({"capacity": 5}, "capacity: is 5, must be a valid dictionary"),
        ({"capacities": {}}, "capacities: is an unknown key"),
        ({"total": {"nodes": 100}}, "total.nodes: is 100, but 32 units are in use and 4360 are free"),
        ({"used": {"cores": 1}}, "used: unknown resource 'cores'; the capacity has nodes"),
        ({"jobs": []}, "jobs: is an empty list, list should have at least 1 item"),
        ({"jobs": [{"id": "1"}]}, "jobs[0].request: is missing"),
        ({"jobs": [{"id": "1", "request": {"nodes": 1}}]}, "jobs[0].wait_s: is missing, the objective 'capability'"),
        (
            {"jobs": [{"id": "1", "request": {"nodes": 1}, "wait_s": "9"}]},
            "jobs[0].wait_s: is '9', must be a valid number",
        ),
        (
            {"jobs": [{"id": "1", "request": {}, "wait_s": 1}]},
            "jobs[0].request: is an empty object, dictionary should",
        ),
        ({"jobs": [{"id": "1", "nodes": 1}]}, "jobs[0].nodes: is an unknown key"),
        ({"objective": "best"}, "objective: is 'best', must be 'capability', 'capacity' or 'linear'"),
        ({"weights": [1, 2]}, "weights: has 2 values, must have 3: w1, w2, w3"),
        ({"weights": [1, -2, 0]}, "weights[1]: is -2"),
        ({"slots": [0]}, "slots[0]: is 0, must be greater than or equal to 1"),
        ({"slots": [4000, 400]}, "slots: hold 4400 units together, but only 4360 are free"),
    ],
)
def test_a_fault_is_one_line_with_file_and_place(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**DESIGN_EXAMPLE, **changes}))
    with pytest.raises(BadFileError) as caught:
        read_problems(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


PROBLEM = knapsack([2, 3, 2], 5, "linear", slots=(3, 2), name="k")
RESULT = Result(Status.OPTIMAL, StopReason.PROVED, 5.0, 5.0, 0.1, selection(1, 2, slots=(0, 1)), 3, "scip", "1.2")


def test_a_solution_holds_the_selected_ids_their_slots_and_no_strategy(tmp_path: Path) -> None:
    write_solution(tmp_path / "k.json", PROBLEM, RESULT)
    assert json.loads((tmp_path / "k.json").read_text()) == {
        "format": "allocopt-solution",
        "version": 1,
        "instance": "k",
        "strategy": None,
        "solver": "scip",
        "status": "OPTIMAL",
        "objective": 5.0,
        "bound": 5.0,
        "seed": 3,
        "solver_version": "1.2",
        "slots": {"job-1": 0, "job-2": 1},
        "selected": ["job-1", "job-2"],
    }
    stored = read_solution(tmp_path / "k.json")
    assert stored == stored_solution(PROBLEM, RESULT)
    assert check_solution(PROBLEM, stored) == 5.0


def test_a_solution_without_a_selection_says_null(tmp_path: Path) -> None:
    write_solution(tmp_path / "k.json", PROBLEM, replace(RESULT, status=Status.UNKNOWN, solution=None, objective=None))
    held = json.loads((tmp_path / "k.json").read_text())
    assert (held["selected"], held["objective"]) == (None, None)
    with pytest.raises(InvalidSolutionError, match="holds no selection, its status is UNKNOWN"):
        check_solution(PROBLEM, read_solution(tmp_path / "k.json"))


def test_a_selection_has_no_strategy(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    write_solution(path, PROBLEM, RESULT)
    path.write_text(json.dumps({**json.loads(path.read_text()), "strategy": "free"}))
    with pytest.raises(BadFileError, match="strategy: is 'free', must be None"):
        read_solution(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instance": "other"}, "is of instance 'other', not of 'k'"),
        ({"objective": 4.0}, "stated objective is 4.0, recomputed it is 5"),
        ({"bound": 4.0}, "stated bound 4.0 excludes"),
        ({"bound": 6.0}, "status is OPTIMAL, but the bound 6.0 is above 5"),
        ({"status": Status.INFEASIBLE}, "status is INFEASIBLE, but there is a selection"),
        ({"selected": ("job-1", "x")}, "job 'x' is not in the instance"),
        ({"selected": ("job-1", "job-1")}, "job 'job-1' is selected twice"),
        ({"slots": None}, "slots for 0 of 2 selected jobs"),
        ({"slots": {"job-1": 1, "job-2": 0}}, "jobs in slot 1 ask for 3 units, it has 2"),
    ],
)
def test_a_wrong_solution_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSolutionError, match=message):
        check_solution(PROBLEM, stored_solution(PROBLEM, RESULT).model_copy(update=changes))


def test_a_solution_of_another_kind_is_refused() -> None:
    window = TopologyProblem(FatTree(1, 1, 2), np.arange(2), (Job("a", 2),), name="k")
    other = stored_solution(window, replace(RESULT, solution=Allocation((np.arange(2),))))
    with pytest.raises(InvalidSolutionError, match="is of a topology problem, 'k' is a knapsack"):
        check_solution(PROBLEM, other)


def test_best_known_values_of_knapsacks_stand_under_no_strategy(tmp_path: Path) -> None:
    values = {"k": {"": BestKnown(5.0, proved=True)}}
    write_best_known(tmp_path / "best_known.json", values)
    assert read_best_known(tmp_path / "best_known.json") == values


FOLDER = Path(__file__).parents[4] / "instances"


@pytest.mark.slow
def test_the_shipped_knapsacks_have_best_known_values_that_hold() -> None:
    known = read_best_known(FOLDER / "best_known.json")
    problems = read_problems(FOLDER / "knapsacks.jsonl")
    assert len(problems) >= 8
    for problem in problems:
        result = solve(problem, solver="dp" if problem.name.startswith(("means", "turnaround", "values")) else "cp-sat")
        assert result.status is Status.OPTIMAL
        assert known[problem.name][""].proved
        assert result.objective == pytest.approx(known[problem.name][""].objective, rel=1e-9)
