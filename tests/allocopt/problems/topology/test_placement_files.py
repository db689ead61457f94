"""Rules of jobs in instance files: what is written is read again, and faults are named."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from support.side import ruled_windows

from allocopt.errors import BadFileError
from allocopt.problems.instances import object_from_problem, problem_from_object, read_problems, write_problems
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.placement import Groups, Placement, Preference, Segments

JOB: dict[str, Any] = {"id": "a", "nodes": 4}
TREE = {"kind": "tree", "levels": [{"x": [0, 1], "y": [2, 3], "z": [4, 5]}]}
FAT_TREE = {"kind": "fat-tree", "pods": 2, "leaves_per_pod": 2, "nodes_per_leaf": 3}


def instance(job: dict[str, Any], topology: dict[str, Any] = FAT_TREE, **keys: Any) -> dict[str, Any]:
    n_nodes = 6 if topology is TREE else 12
    header = {"format": "allocopt-instance", "version": 1, "kind": "topology", "name": "w"}
    return {**header, "topology": topology, "idle_nodes": list(range(n_nodes)), "jobs": [{**JOB, **job}], **keys}


@given(ruled_windows())
def test_what_is_written_is_read_again(problem: TopologyProblem) -> None:
    again = problem_from_object(json.loads(json.dumps(object_from_problem(problem))), "file")
    assert again.fragmentation_weight == problem.fragmentation_weight
    assert [job.placement or Placement() for job in again.jobs] == [
        job.placement or Placement() for job in problem.jobs
    ]


def test_a_file_holds_rules(tmp_path: Path) -> None:
    rules = {
        "only_in": [{"level": "pod", "groups": [1]}, {"level": 1, "groups": [0]}],
        "not_in": [{"level": "leaf", "groups": [3]}],
        "within": "pod",
        "prefer": {"level": "leaf", "penalty": 2.5},
        "segments": {"nodes": 2, "level": "leaf"},
    }
    expected = Placement(
        (Groups("pod", (1,)), Groups(1, (0,))),
        (Groups("leaf", (3,)),),
        "pod",
        Preference("leaf", 2.5),
        Segments(2, "leaf"),
    )
    path = tmp_path / "w.json"
    path.write_text(json.dumps(instance(rules, fragmentation_weight=0.25)))
    (problem,) = read_problems(path)
    assert problem.jobs[0].placement == expected
    assert problem.fragmentation_weight == 0.25
    write_problems(path, [problem])
    assert read_problems(path)[0].jobs == problem.jobs


def test_groups_of_a_named_tree_go_by_name() -> None:
    problem = problem_from_object(instance({"not_in": [{"level": 1, "groups": ["y"]}]}, TREE), "file")
    assert problem.jobs[0].placement == Placement(not_in=(Groups(1, ("y",)),))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"within": "rack"}, r"jobs\[0\]\.within: is 'rack', must be a level below the top: 1\.\.2 or leaf or pod"),
        ({"within": 3}, r"jobs\[0\]\.within: is 3, must be a level"),
        ({"within": 0}, r"jobs\[0\]\.within: is 0, must be an integer from 1 on or a name"),
        ({"within": True}, r"jobs\[0\]\.within: is true, must be an integer"),
        ({"withn": "pod"}, r"jobs\[0\]\.withn: is an unknown key"),
        ({"segments": {"nodes": 3, "level": 1}}, r"jobs\[0\]\.segments\.nodes: is 3, must divide the 4 nodes"),
        ({"segments": {"nodes": 2}}, r"jobs\[0\]\.segments\.level: is missing"),
        (
            {"prefer": {"level": "pod", "penalty": -1}},
            r"jobs\[0\]\.prefer\.penalty: is -1, must be greater than or equal to 0",
        ),
        (
            {"only_in": [{"level": "pod", "groups": []}]},
            r"jobs\[0\]\.only_in\[0\]\.groups: is an empty list, list should",
        ),
        (
            {"only_in": [{"level": "pod", "groups": [2]}]},
            r"jobs\[0\]\.only_in\[0\]: holds 2, must hold a number in 0\.\.1",
        ),
        ({"not_in": [{"level": "pod", "groups": ["x"]}]}, r"jobs\[0\]\.not_in\[0\]: holds 'x', must hold a number"),
    ],
)
def test_a_fault_names_job_field_and_what_would_be_right(job: dict[str, Any], message: str) -> None:
    with pytest.raises(BadFileError, match=message):
        problem_from_object(instance(job), "file")


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(BadFileError, match="fragmentation_weight: is -1, must be greater than or equal to 0"):
        problem_from_object(instance({}, fragmentation_weight=-1), "file")
