"""Co-allocations in files: what is written is read again, and every fault is one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from support.coallocations import coallocations, job, problem, solution
from support.solutions import stored_solution

from allocopt.errors import BadFileError, InvalidSolutionError
from allocopt.problems.coallocation.problem import CoallocationProblem
from allocopt.problems.instances import object_from_problem, problem_from_object, read_problems, write_problems
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solution_files import (
    check_solution,
    read_best_known,
    read_solution,
    write_solution,
)
from allocopt.solving.solve import solve

DESIGN_EXAMPLE: dict[str, Any] = {
    "format": "allocopt-instance",
    "version": 1,
    "kind": "coallocation",
    "name": "example",
    "hosts": [
        {
            "id": "h",
            "cores": 64,
            "profile": [
                {"share": 0.25, "cpu": 0.75, "memory": 0.1, "io": 0.5, "kind": "parallel"},
                {"share": 0.75, "cpu": 0.015625, "memory": 0.1, "io": 0, "kind": "sequential"},
            ],
            "remaining_s": 600,
            "walltime_s": 900,
        }
    ],
    "guests": [{"id": "g", "cores": 16, "profile": [{"share": 1, "cpu": 1}], "remaining_s": 300, "walltime_s": 400}],
    "quotas": [0, 0.25, 0.5],
    "max_slowdown": 1.5,
}
FIELDS = ("hosts", "guests", "quotas", "max_slowdown", "max_guest_slowdown", "max_guests", "objective_name", "name")


def fields(case: CoallocationProblem) -> tuple[object, ...]:
    rest = ("degradation_weight", "sharing", "interference", "measured")
    return tuple(getattr(case, name) for name in (*FIELDS, *rest))


def test_the_example_of_the_design_is_read() -> None:
    case = problem_from_object(DESIGN_EXAMPLE, "example")
    assert isinstance(case, CoallocationProblem)
    assert case.percents.tolist() == [25, 50]
    assert (case.hosts[0].profile[1].kind, case.hosts[0].happiness) == ("sequential", 1.5)
    held = object_from_problem(case)
    assert {key: held[key] for key in DESIGN_EXAMPLE if key != "guests"} == {
        key: value for key, value in DESIGN_EXAMPLE.items() if key != "guests"
    }


@given(case=coallocations(several=True) | coallocations() | coallocations(measured=True))
def test_every_problem_survives_its_file(tmp_path: Path, case: CoallocationProblem) -> None:
    write_problems(tmp_path / "c.json", [case])
    (again,) = read_problems(tmp_path / "c.json")
    assert isinstance(again, CoallocationProblem)
    assert fields(again) == fields(case)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"hosts": []}, "hosts: is an empty list, list should have at least 1 item"),
        ({"quotas": [1.5]}, "quotas[0]: is 1.5, must be less than or equal to 1"),
        ({"quotas": [0.95]}, "quotas[0]: is 0.95, must be of whole percent, within 0 .. 0.9"),
        ({"max_slowdown": 0.5}, "max_slowdown: is 0.5, must be greater than or equal to 1"),
        ({"sharing": "shares", "max_guests": 2}, "sharing: is 'shares', which is for one guest a host"),
        ({"objective": "response"}, "guests[0].wait_s: is missing"),
        ({"pairs": [{"host": "h", "guest": "x", "host_slowdown": 1, "guest_slowdown": 1}]}, "pairs[0].guest: is 'x'"),
        (
            {"pairs": [{"host": "h", "guest": "g", "host_slowdown": n, "guest_slowdown": 1} for n in (1, 2)]},
            "pairs[1]: is of host 'h' and guest 'g', which come twice",
        ),
        ({"interference": {"paging": 1}}, "interference.paging: is an unknown key"),
        ({"hosts": [{**DESIGN_EXAMPLE["hosts"][0], "profile": [{"share": 1}]}]}, "hosts[0].profile[0].cpu: is missing"),
    ],
)
def test_a_fault_is_one_line_with_its_place(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadFileError) as caught:
        problem_from_object({**DESIGN_EXAMPLE, **change}, "file.json")
    assert str(caught.value).startswith(f"file.json: {fault}")


CASE = problem([job("h", 8, remaining=100)], [job("g", 2), job("i", 2)], name="case")


def test_a_solution_survives_its_file(tmp_path: Path) -> None:
    result = solve(CASE, time_limit=60.0)
    write_solution(tmp_path / "s.json", CASE, result)
    held = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert held["strategy"] is None
    assert held["placements"] == [{"guest": "g", "host": "h", "quota": held["placements"][0]["quota"]}]
    assert check_solution(CASE, read_solution(tmp_path / "s.json")) == result.objective


def test_no_placement_and_no_answer_are_two_things(tmp_path: Path) -> None:
    nobody = Result(Status.FEASIBLE, StopReason.COMPLETED, 0.0, None, 0.1, solution(), 0, "greedy", "1")
    write_solution(tmp_path / "s.json", CASE, nobody)
    assert check_solution(CASE, read_solution(tmp_path / "s.json")) == 0.0
    none = Result(Status.UNKNOWN, StopReason.TIME_LIMIT, None, None, 0.1, None, 0, "greedy", "1")
    with pytest.raises(InvalidSolutionError, match="holds no co-allocation"):
        check_solution(CASE, stored_solution(CASE, none))


def test_a_solution_without_the_key_of_any_kind_is_told(tmp_path: Path) -> None:
    path = tmp_path / "solution.json"
    path.write_text('{"format": "allocopt-solution", "version": 1, "strategy": null}', encoding="utf-8")
    with pytest.raises(BadFileError, match=r"solution\.json: top level: has none of placements, selected, allocation"):
        read_solution(path)


def test_a_solution_that_breaks_a_rule_is_refused() -> None:
    wrong = Result(Status.FEASIBLE, StopReason.COMPLETED, 4.0, None, 0.1, solution((0, 0, 90)), 0, "x", "1")
    with pytest.raises(InvalidSolutionError, match="'h' is slowed down"):
        check_solution(CASE, stored_solution(CASE, wrong))


FOLDER = Path(__file__).parents[4] / "instances"


@pytest.mark.slow
def test_the_shipped_coallocations_have_best_known_values_that_hold() -> None:
    known = read_best_known(FOLDER / "best_known.json")
    problems = read_problems(FOLDER / "coallocations.jsonl")
    assert len(problems) == 12
    for one in problems:
        assert isinstance(one, CoallocationProblem)
        result = solve(one, solver="assignment" if one.max_guests == 1 else "cp-sat")
        assert result.status is Status.OPTIMAL
        assert known[one.name][""].proved
        assert result.objective == pytest.approx(known[one.name][""].objective, rel=1e-9)
