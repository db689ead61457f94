"""What is written into an instance file is read again, for every cluster."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.coallocations import coallocations
from support.knapsacks import knapsacks
from support.placements import small_placements
from support.side import ruled_windows
from support.windows import windows

from allocopt.cluster.topology import FatTree, Tree
from allocopt.errors import BadFileError, InvalidProblemError, InvalidSolutionError, UsageError
from allocopt.problems.base import Problem
from allocopt.problems.coallocation.problem import CoallocationProblem
from allocopt.problems.instances import object_from_problem, problem_from_object, read_problems, write_problems
from allocopt.problems.kind import get_kind, is_maximized, kind_names, kind_of
from allocopt.problems.knapsack import KnapsackProblem
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.problems.topology.side_constraints import SideConstraints
from allocopt.solving.result import Status
from allocopt.solving.solution_files import read_best_known
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify

DESIGN_EXAMPLE = """{"format": "allocopt-instance", "version": 1, "kind": "topology", "name": "example",
 "topology": {"kind": "fat-tree", "pods": 10, "leaves_per_pod": 10, "nodes_per_leaf": 10},
 "idle_nodes": [3, 4, 17], "jobs": [{"id": "1", "nodes": 2}], "hop_cost": 1000}"""

names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=8)
file_names = names.filter(lambda name: not {"/", "\\"} & set(name) and name not in (".", ".."))


@st.composite
def problems(draw: st.DrawFn) -> TopologyProblem:
    """Windows whose groups, jobs and instances have any names."""
    problem, prefix = draw(windows(most_idle=12, most_jobs=4)), draw(names)
    topology = problem.topology
    if isinstance(topology, Tree):
        named = tuple(tuple(prefix + name for name in level) for level in topology.names)
        topology = dataclasses.replace(topology, names=named)
    idle = np.array(draw(st.permutations(problem.idle_nodes.tolist())))
    jobs = tuple(dataclasses.replace(job, id=prefix + job.id) for job in problem.jobs)
    cost = draw(st.floats(1e-6, 1e9) | st.sampled_from([1000.0, 1e12, 1e-6]))
    return TopologyProblem(topology, idle, jobs, cost, draw(file_names))


def told(problem: Problem) -> dict[str, Any]:
    """Return all that a problem holds, less what its file need not say."""
    held = dataclasses.asdict(problem)  # type: ignore[call-overload]
    for job in held["jobs"] if isinstance(problem, TopologyProblem) else ():
        # No rules and empty ones are the same.
        job["placement"] = job["placement"] or dataclasses.asdict(SideConstraints())
    if isinstance(problem, KnapsackProblem) and problem.reward != "capability":
        # The weights are for one objective alone.
        del held["weights"]
    return {"class": type(problem), **held}


every_kind: st.SearchStrategy[Problem] = st.one_of(
    *(problems(), ruled_windows(), knapsacks(resources=2, slots=True), coallocations(), coallocations(several=True)),
    coallocations(measured=True),
    small_placements(),
)


@settings(max_examples=60)
@given(
    st.lists(every_kind, min_size=1, max_size=3, unique_by=lambda problem: problem.name),
    st.sampled_from(["a.jsonl", "a.jsonl.gz", "a.json", "a.json.gz"]),
)
def test_every_problem_survives_its_file_also_with_other_kinds(
    tmp_path: Path, written: list[Problem], file_name: str
) -> None:
    if ".jsonl" not in file_name:
        written = written[:1]
    write_problems(tmp_path / file_name, written)
    read = read_problems(str(tmp_path / file_name))
    np.testing.assert_equal([told(problem) for problem in read], [told(problem) for problem in written])


def test_what_the_example_of_the_format_leaves_out_has_its_default() -> None:
    example = json.loads(DESIGN_EXAMPLE)
    problem = problem_from_object(example, "x")
    assert problem.topology == FatTree(10, 10, 10, hops=(2, 4, 6), pairs="ordered")
    assert problem.idle_nodes.tolist() == [3, 4, 17]
    assert (problem.jobs, problem.hop_cost, problem.name) == ((Job("1", 2),), 1000.0, "example")
    del example["hop_cost"]
    example["topology"] = {"kind": "tree", "levels": [{"a": [0, 1, 3], "b": [2]}, {"c": ["a", "b"]}]}
    example["idle_nodes"] = [3, 0]
    problem = problem_from_object(example, "x")
    assert (problem.hop_cost, problem.topology.hops, problem.topology.pairs) == (1000.0, (2, 4), "ordered")


def test_an_instance_has_one_key_a_line_and_a_stream_one_instance_a_line(tmp_path: Path) -> None:
    problem = problem_from_object(json.loads(DESIGN_EXAMPLE), "x")
    write_problems(tmp_path / "a.json", [problem])
    write_problems(tmp_path / "a.jsonl", [problem])
    assert '\n  "idle_nodes": [3, 4, 17],\n' in (tmp_path / "a.json").read_text()
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1


def problem_named(name: str) -> TopologyProblem:
    return TopologyProblem(FatTree(1, 1, 2), np.array([0, 1]), (Job("1", 1),), name=name)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\nb", "\ud800"])
def test_a_problem_that_could_not_be_read_again_is_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadFileError, match=r"a\.json: instance .*: name: "):
        write_problems(tmp_path / "a.json", [problem_named(name)])
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_instances_that_a_file_cannot_hold_are_refused(tmp_path: Path) -> None:
    two = [problem_named("a"), problem_named("b")]
    with pytest.raises(BadFileError, match=r"cannot hold 2 instances; .* several into a \.jsonl file"):
        write_problems(tmp_path / "a.json", two)
    with pytest.raises(BadFileError, match="cannot hold 0 instances"):
        write_problems(tmp_path / "a.jsonl", [])
    with pytest.raises(BadFileError, match="cannot hold two instances named 'a'"):
        write_problems(tmp_path / "a.jsonl", [two[0], two[1], two[0]])
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_of_another_type_is_refused() -> None:
    class Ring:
        hops, pairs, size = (2,), "ordered", 2

    problem = TopologyProblem(Ring(), np.array([0, 1]), (Job("1", 1),))  # type: ignore[arg-type]
    with pytest.raises(InvalidProblemError, match="topology: is a Ring, which instance files cannot hold"):
        object_from_problem(problem)


def test_numpy_integers_are_written_as_integers(tmp_path: Path) -> None:
    two = np.int64(2)
    problem = TopologyProblem(FatTree(two, two, two, hops=(1, two, 3)), np.arange(3), (Job("1", two),))  # type: ignore[arg-type]
    write_problems(tmp_path / "a.json", [problem])
    np.testing.assert_equal(told(read_problems(tmp_path / "a.json")[0]), told(problem))


def test_shipped_instances_are_read_by_their_name() -> None:
    assert [problem.name for problem in read_problems("@tiny")][:1] == ["tiny-fat-tree-0"]
    with pytest.raises(
        UsageError, match="'@huge'; choose from @coallocations, @knapsacks, @placements, @relocations, @tiny"
    ):
        read_problems("@huge")


@pytest.mark.parametrize("answer", [None, [(0, 0, 10)], {"job-0": [0, 1]}, "host"])
def test_what_is_no_solution_of_the_kind_is_refused(answer: object) -> None:
    for name in kind_names():
        problem = read_problems(get_kind(name).shipped[1])[0]  # type: ignore[index]
        with pytest.raises(InvalidSolutionError, match=f"must be of class {kind_of(problem).solution.__name__}"):
            verify(problem, answer)


FOLDER = Path(__file__).parents[3] / "instances"


@pytest.mark.slow
@pytest.mark.parametrize(("file", "count"), [("knapsacks.jsonl", 8), ("coallocations.jsonl", 12)])
def test_the_best_known_values_of_shipped_instances_without_strategies_hold(file: str, count: int) -> None:
    known = read_best_known(FOLDER / "best_known.json")
    problems = read_problems(FOLDER / file)
    assert len(problems) >= count
    quick = {"means": "dp", "turnaround": "dp", "values": "dp"}
    for problem in problems:
        assert isinstance(problem, KnapsackProblem | CoallocationProblem)
        solver = quick.get(problem.name.partition("-")[0], "cp-sat")
        if isinstance(problem, CoallocationProblem) and problem.max_guests == 1:
            solver = "assignment"
        result = solve(problem, solver=solver)
        assert (result.status, known[problem.name][""].proved) == (Status.OPTIMAL, True)
        assert result.objective == pytest.approx(known[problem.name][""].objective, rel=1e-9)


def test_the_sense_of_a_kind_is_that_of_its_problems_and_an_unknown_one_is_minimized() -> None:
    maximized = [name for name in (*kind_names(), "routing") if is_maximized(name)]
    assert sorted(maximized) == ["coallocation", "knapsack"]
