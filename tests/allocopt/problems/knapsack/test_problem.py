"""Knapsack problems, their gains, and their files."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from support.knapsacks import best_value, knapsack, knapsacks, selection, selections, value_of

from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.problems.instances import read_problems, write_problems
from allocopt.problems.knapsack import KnapsackJob, KnapsackProblem, Selection
from allocopt.problems.knapsack.packing import Gains
from allocopt.solving.verify import verify

JOB = KnapsackJob("a", {"nodes": 4}, 60.0, 100.0, 5.0)


OTHER = KnapsackJob("b", {"nodes": 2}, 30.0, 50.0, 1.0)


def problem(**changes: Any) -> KnapsackProblem:
    fields = {"capacity": {"nodes": 5}, "jobs": (JOB, OTHER), "total": {"nodes": 10}}
    return KnapsackProblem(**{**fields, **changes})


@given(posed=knapsacks(resources=2))
def test_every_objective_is_what_equations_1_and_2_write_and_what_its_gains_say(posed: KnapsackProblem) -> None:
    gains = Gains.of(posed)
    for chosen in selections(posed):
        objective = posed.objective(selection(*chosen))
        assert objective == pytest.approx(value_of(posed, chosen), rel=1e-12, abs=1e-12)
        jobs = list(chosen)
        mean = 0.0 if gains.shared is None or not jobs else float(gains.shared[jobs].mean())
        assert objective == pytest.approx(gains.constant + mean + gains.own[jobs].sum(), rel=1e-12, abs=1e-12)


@given(posed=knapsacks(resources=2, slots=True))
def test_bounds_hold_and_greedy_selections_fit(posed: KnapsackProblem) -> None:
    gains = Gains.of(posed)
    assert gains.bound()[0] >= best_value(posed) - 1e-12
    for found in gains.greedy():
        verify(posed, found)
    if gains.shared is not None:
        bounds = gains.count_bounds()
        for chosen in selections(posed):
            assert value_of(posed, chosen) <= bounds[len(chosen)] + 1e-12


def test_what_is_in_use_and_the_machine_follow_from_each_other() -> None:
    assert problem(total={}).total == {"nodes": 5}
    assert problem(total={}, used={"nodes": 3}).total == {"nodes": 8}
    assert problem(used={"nodes": 3}).total == {"nodes": 10}


@pytest.mark.parametrize(
    ("changes", "place", "fault"),
    [
        ({"capacity": {}}, "capacity", "is empty"),
        ({"capacity": {"nodes": -1}}, "capacity.nodes", "is -1, must be a whole number within 0"),
        ({"total": {"cores": 1}}, "total", "unknown resource 'cores'; the capacity has nodes"),
        ({"used": {"nodes": 6}}, "total.nodes", "is 10, but 6 units are in use and 5 are free"),
        ({"capacity": {"nodes": 0}, "total": {}}, "total.nodes", "is 0, must be at least 1"),
        ({"reward": "best"}, "objective", "is 'best', must be one of capability, capacity, linear"),
        ({"weights": "abc"}, "weights[0]", "is 'a', must be within 0"),
        ({"jobs": ()}, "jobs", "must hold at least one job"),
        ({"jobs": (JOB, JOB)}, "jobs[1].id", "job 'a' is given twice"),
        ({"jobs": (KnapsackJob("a", {"cores": 1}, 1.0),)}, "jobs[0].request", "unknown resource 'cores'"),
        ({"jobs": (KnapsackJob("a", {"nodes": 0}, 1.0),)}, "jobs[0].request", "asks for nothing"),
        ({"jobs": (KnapsackJob("a", {"nodes": 1}, -1.0),)}, "jobs[0].wait_s", "is -1.0, must be within 0"),
        ({"jobs": (KnapsackJob("a", {"nodes": 1}, 1.0, 0.0),)}, "jobs[0].estimate_s", "is 0.0, must be within"),
        ({"jobs": (KnapsackJob("a", {"nodes": 1}, 1.0),), "reward": "linear"}, "jobs[0].value", "is missing"),
        ({"slots": (3, 0)}, "slots[1]", "is 0, must be a whole number from 1 on"),
    ],
)
def test_a_fault_is_named_with_its_place(changes: dict[str, Any], place: str, fault: str) -> None:
    with pytest.raises(InvalidProblemError, match=r".") as caught:
        problem(**changes)
    assert caught.value.place == place
    assert fault in caught.value.fault


@pytest.mark.parametrize(
    ("posed", "solution", "message"),
    [
        (problem(), selection(0, 1), "ask for 6 nodes, but only 5 are free"),
        (problem(), selection(2), "job number 2 is selected, must be within 0..1"),
        (problem(), selection(1, 1), "job 'b' is selected twice"),
        (problem(), selection(1, slots=(0,)), "the instance has none"),
        (problem(slots=(3, 2)), selection(1), "1 jobs are selected, but 0 slots are given"),
        (problem(slots=(3, 2)), selection(1, slots=(2,)), "job 'b' gets slot 2, which does not exist"),
        (problem(slots=(3, 2)), selection(0, slots=(0,)), "jobs in slot 0 ask for 4 units, but it has 3"),
    ],
)
def test_a_selection_that_breaks_a_rule_is_refused(posed: KnapsackProblem, solution: Any, message: str) -> None:
    with pytest.raises(InvalidSolutionError, match=message):
        verify(posed, solution)


@pytest.mark.parametrize(
    ("ids", "slots", "message"),
    [
        (["c"], {}, "job 'c' is not in the instance"),
        (["a"], {"b": 0}, "job 'b' has a slot, but is not selected"),
        (["a", "b"], {"b": 0}, "job 'a' has no slot"),
    ],
)
def test_names_that_make_no_selection_are_refused(ids: list[str], slots: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidSolutionError, match=message):
        Selection.from_ids(problem(), ids, slots)


def test_a_selection_goes_to_names_and_back() -> None:
    posed = knapsack([1, 2, 3], 4, slots=(2, 2))
    found = selection(0, 1, slots=(1, 0))
    assert found.ids(posed) == ["job-0", "job-1"]
    assert Selection.from_ids(posed, ["job-1", "job-0"], found.slot_of(posed)) == found


def test_every_field_of_a_job_survives_its_file(tmp_path: Path) -> None:
    numbers = [field for field in dataclasses.fields(KnapsackJob) if field.name not in ("id", "request")]
    given = {field.name: place + (7 if field.type is int else 7.5) for place, field in enumerate(numbers)}
    full = KnapsackJob("a", {"nodes": 1}, **given)
    write_problems(tmp_path / "full.json", [KnapsackProblem({"nodes": 2}, (full,), name="full")])
    (read,) = read_problems(tmp_path / "full.json")
    assert isinstance(read, KnapsackProblem)
    assert read.jobs == (full,)
