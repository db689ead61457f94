"""Placement problems: their cost, what the verifier finds, and what they refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.placements import best_cost, four_pairs, hop_cost_of, request, small_placements
from support.windows import windows

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.named import Switch, tree_of_switches
from allocopt.cluster.request import Request
from allocopt.cluster.topology import FatTree
from allocopt.errors import BadFileError, InvalidProblemError, InvalidSolutionError
from allocopt.placement import NodeTasks, PlacementJob, PlacementProblem, Placements
from allocopt.problems.instances import object_from_problem, problem_from_object
from allocopt.problems.placement.generate import synthetic_placement
from allocopt.problems.placement.problem import verify_placements
from allocopt.problems.placement.window import PlacementArrays
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.result import Status
from allocopt.solving.solve import solve

SHAPE = (8, 2, 2)


def placed(*jobs: dict[int, int]) -> Placements:
    return Placements(tuple(tuple(NodeTasks(*pair) for pair in job.items()) for job in jobs))


def test_the_cost_is_that_of_the_hops_and_of_the_jobs_left_out_by_default_more_than_of_all_hops() -> None:
    jobs = tuple(PlacementJob(name, request(SHAPE, 3, (1, 3))) for name in "ab")
    problem = four_pairs(jobs=jobs, left_out_cost=7.0)
    assert problem.objective(placed({0: 1, 1: 1, 2: 1}, {})) == hop_cost_of(problem, [0, 1, 2]) + 7.0
    assert problem.objective(placed({}, {})) == 14.0
    assert problem.objective(placed({5: 3}, {5: 3})) == 0.0
    wide = four_pairs(jobs=tuple(PlacementJob(name, request(SHAPE, 8, (1, 8))) for name in "abc"))
    assert wide.left_out_cost is not None
    assert wide.left_out_cost > 3 * hop_cost_of(wide, list(range(8)))


@pytest.mark.parametrize(
    ("asked", "tasks", "fault"),
    [
        ({"tasks": 2, "nodes": (1, 2)}, {0: 1}, "has 1 of 2 tasks placed"),
        ({"tasks": 2, "nodes": (1, 1)}, {0: 1, 1: 1}, "gets 2 nodes, asks for 1 to 1"),
        ({"tasks": 3, "nodes": (2, 3), "most_tasks": 2}, {0: 3}, "gets 1 nodes"),
        ({"tasks": 4, "nodes": (1, 3), "most_tasks": 2}, {0: 3, 1: 1}, "has 3 tasks on a node, at most 2 are allowed"),
        ({"tasks": 1}, {8: 1}, "gets node 8, which does not exist"),
        (
            {"tasks": 2, "nodes": (2, 2), "sets": ((0, 1), (2, 3))},
            {1: 1, 2: 1},
            "do not all lie in one of its node sets",
        ),
        ({"tasks": 2, "nodes": (2, 2), "most_groups": (0, 1)}, {3: 1, 4: 1}, "spans 2 groups of level 2, may span 1"),
        (
            {"tasks": 4, "nodes": (4, 4), "segments": (1, 2)},
            {0: 1, 1: 1, 2: 1, 5: 1},
            "has 3 nodes in group 0 of level 2, must have a multiple of 2",
        ),
        ({"tasks": 1, "alone": True}, {7: 1}, "node 7 is shared"),
        ({"tasks": 5}, {0: 5}, "jobs use more of node 0 than is free: 5 cores, 4 are free"),
        ({"tasks": 1, "per_node": (0, 5)}, {0: 1}, "jobs use more of node 0 than is free: 5 memory_mib, 4 are free"),
    ],
)
def test_a_broken_rule_is_named(asked: dict[str, object], tasks: dict[int, int], fault: str) -> None:
    in_use = np.arange(8) == 7
    problem = four_pairs(in_use=in_use, jobs=(PlacementJob("a", request(SHAPE, **asked)),))  # type: ignore[arg-type]
    with pytest.raises(InvalidSolutionError, match=fault):
        verify_placements(problem, placed(tasks))


def test_no_two_jobs_together_get_more_than_is_free_or_share_with_one_that_is_alone() -> None:
    for alone, fault in ((False, "jobs use more of node 0 than is free: 5 cores"), (True, "node 0 is shared")):
        jobs = (PlacementJob("a", request(SHAPE, 3)), PlacementJob("b", request(SHAPE, 2, alone=alone)))
        problem = four_pairs(jobs=jobs)
        assert verify_placements(problem, placed({0: 3}, {1: 2})) == 0.0
        with pytest.raises(InvalidSolutionError, match=fault):
            verify_placements(problem, placed({0: 3}, {0: 2}))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"free": np.full((7, 2), 1)}, "free: has shape"),
        ({"free": np.full((8, 2), -1)}, "free.cores: is -1"),
        ({"in_use": np.zeros(8)}, "in_use: must have a bool"),
        ({"jobs": ()}, "jobs: is empty"),
        (
            {"jobs": (PlacementJob("a", request((7, 2, 2))),)},
            r"jobs\[0\].only_in: must have at least one set of nodes: a row of 8 booleans",
        ),
        ({"jobs": (PlacementJob("a", request((8, 2, 1))),)}, r"jobs\[0\].most_groups: is \[0\], must be 2 numbers"),
        (
            {"jobs": (PlacementJob("a", request(SHAPE, segments=(1,))),)},
            r"jobs\[0\].segments: is \[1\], must be 2",
        ),
        (
            {"jobs": (PlacementJob("a", request(SHAPE, 6, (6, 6), segments=(2, 3))),)},
            r"jobs\[0\].segments: has parts of 2 nodes, must divide the 3 nodes of parts at a higher level",
        ),
        (
            {"jobs": (PlacementJob("a", request(SHAPE, 6, (3, 3), segments=(0, 2))),)},
            r"jobs\[0\].segments: has parts of 2 nodes, but the job gets 3 to 3 nodes, and none of these numbers is",
        ),
        ({"jobs": (PlacementJob("a", request(SHAPE, 0)),)}, r"jobs\[0\].tasks: is 0"),
        ({"jobs": (PlacementJob("a", request(SHAPE, per_task=(1,))),)}, r"jobs\[0\].per_task: must have an amount"),
        ({"left_out_cost": -1.0}, "left_out_cost: is -1"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(InvalidProblemError, match=fault):
        four_pairs(**changes)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"free": {"cores": [1]}}, "free.cores: has 1 amounts, must have one for each of 8 nodes"),
        ({"in_use": [8]}, r"in_use: holds node 8, must be within 0 \.\. 7"),
        ({"node_sets": {"a": [9]}}, "node_sets.a: holds node 9"),
        ({"jobs": [{"id": "a", "tasks": 1, "only_in": ["b"]}]}, r"jobs\[0\].only_in: holds 'b', which is not one"),
        ({"jobs": [{"id": "a", "tasks": 1, "per_task": {"gpus": 1}}]}, r"jobs\[0\].per_task: holds 'gpus', must be"),
        ({"jobs": [{"id": "a", "tasks": 1, "least_nodes": 2}]}, r"jobs\[0\].least_nodes: is 2, must be within"),
        ({"jobs": [{"id": "a", "tasks": 1, "most_groups": [1]}]}, r"jobs\[0\].most_groups: is \[1\], must be 2"),
        (
            {"jobs": [{"id": "a", "tasks": 4, "segments": [{"nodes": 2, "level": 1}, {"nodes": 2, "level": 2}]}]},
            r"jobs\[0\].segments\[1\].level: is level 2, must be below level 1",
        ),
        (
            {"jobs": [{"id": "a", "tasks": 4, "segments": {"nodes": 2, "level": 3}}]},
            r"jobs\[0\].segments.level: is 3, must be a level below the top",
        ),
    ],
)
def test_a_fault_of_an_instance_file_is_named_with_its_place(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(BadFileError, match=f"^x: {fault}"):
        problem_from_object({**object_from_problem(four_pairs()), **changes}, "x")


def nested(pods: int, leaves: int, nodes: int) -> PlacementProblem:
    """Return two jobs of 12 whole nodes, in sixes in a pod and in threes in a leaf, and one that shares nodes."""
    shape = pods * leaves * nodes, 1, 2
    wide = request(shape, 12, (12, 12), 1, (1,), (0,), alone=True, segments=(3, 6))
    small = request(shape, 4, (1, 4), 2, (1,), (0,))
    jobs = tuple(PlacementJob(name, asked) for name, asked in (("a", wide), ("b", wide), ("c", small)))
    free, in_use = np.full((shape[0], 1), 4), np.arange(shape[0]) < 4
    return PlacementProblem(FatTree(pods, leaves, nodes), ("cores",), free, in_use, jobs)


@pytest.mark.parametrize("solver", ["first-fit", "best-fit", "cons-tres", "lns", "highs", "cp-sat", "scip", "auto"])
def test_every_solver_places_a_job_in_segments_of_two_levels(solver: str) -> None:
    # A leaf has room for one segment, the first leaf for none.
    problem = nested(2, 5, 5)
    result = solve(problem, solver=solver, time_limit=20.0, iterations=200 if solver == "lns" else None)
    for nodes in result.found().node_sets[:2]:
        for row, size in zip(problem.groups, (3, 6), strict=True):
            assert not (np.bincount(row[nodes]) % size).any()
        assert len(nodes) == 12


def test_segments_are_written_as_they_are_read() -> None:
    for segments in ({"nodes": 3, "level": 1}, [{"nodes": 6, "level": 2}, {"nodes": 3, "level": 1}]):
        obj: dict[str, Any] = object_from_problem(nested(2, 2, 6))
        obj["jobs"][0]["segments"] = segments
        read = problem_from_object(obj, "x")
        assert object_from_problem(read)["jobs"][0]["segments"] == segments
    assert read.jobs[0].request.segments == (3, 6)


@settings(max_examples=40)
@given(small_placements())
def test_no_rule_ever_gives_more_than_there_is_or_beats_the_optimum(problem: PlacementProblem) -> None:
    best = best_cost(problem)
    for rule in ("first-fit", "best-fit", "cons-tres"):
        result = solve(problem, solver=rule)
        assert result.objective is not None
        assert verify_placements(problem, result.found()) == result.objective >= best - 1e-9


@pytest.mark.slow
@settings(max_examples=25)
@given(small_placements())
def test_programs_and_search_find_the_optimum_of_brute_force(problem: PlacementProblem) -> None:
    best = best_cost(problem)
    for name in ("cp-sat", "highs"):
        result = solve(problem, solver=name)
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)
    result = solve(problem, solver="lns", iterations=300, time_limit=None)
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound - 1e-9 <= best <= result.objective + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_one_job_on_unevenly_free_nodes_is_placed_and_proved_as_brute_force_does(data: st.DataObject) -> None:
    rooms = data.draw(st.lists(st.integers(0, 4), min_size=8, max_size=8))
    tasks, unit = data.draw(st.integers(2, 12)), data.draw(st.sampled_from((1, 3)))
    least = data.draw(st.integers(1, min(3, tasks)))
    asked = request(SHAPE, tasks, (least, min(tasks, 5)), per_task=(unit, 0))
    free = np.array([[unit * room, 0] for room in rooms])
    problem = four_pairs(free=free, in_use=np.zeros(8, dtype=np.bool_), jobs=(PlacementJob("a", asked),))
    best = best_cost(problem)
    assert PlacementArrays.of(problem).by_kind().alone(lambda: False).sum() == pytest.approx(best)
    result = solve(problem, solver="lns", iterations=10)
    assert (result.objective, result.bound) == (pytest.approx(best), pytest.approx(best))


def test_a_job_whose_roomiest_nodes_hold_too_few_of_its_tasks_is_left_out_with_a_proof() -> None:
    free = np.array([[3, 0], [0, 0], [4, 0], [1, 0], [1, 0], [1, 0], [0, 0], [2, 0]])  # 12 tasks on 6 nodes, 11 on 5
    job = PlacementJob("a", request(SHAPE, 12, (1, 5), per_task=(1, 0)))
    result = solve(four_pairs(free=free, in_use=np.zeros(8, dtype=np.bool_), jobs=(job,)), solver="lns", iterations=10)
    assert (result.status, result.found().of_jobs) == (Status.OPTIMAL, ((),))


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cp-sat", "highs", "scip"])
def test_a_job_whose_nodes_have_room_for_too_few_tasks_is_left_out_with_a_proof(solver: str) -> None:
    asked = request(SHAPE, 8, (2, 2), 4, per_task=(2, 0))
    jobs = (PlacementJob("a", asked), PlacementJob("b", request(SHAPE, 2, (2, 2))))
    result = solve(four_pairs(jobs=jobs), solver=solver)
    assert (result.status, result.found().of_jobs[0]) == (Status.OPTIMAL, ())


@pytest.mark.slow
@settings(max_examples=25)
@given(windows(most_idle=7, most_jobs=3))
def test_whole_nodes_have_the_same_optimum_as_a_placement(window: TopologyProblem) -> None:
    size, levels = window.topology.size, len(window.topology.hops) - 1
    idle = np.isin(np.arange(size), window.idle_nodes)
    jobs = tuple(
        PlacementJob(job.id, request((size, 1, levels), job.nodes, (job.nodes,) * 2, 1, (0,), (0,), alone=True))
        for job in window.jobs
    )
    free = np.where(idle, 1, 0)[:, None]
    shared = PlacementProblem(window.topology, ("cores",), free, ~idle, jobs, window.hop_cost)
    best = solve(window.with_strategy("free"), solver="exact").objective
    for name in ("cp-sat", "highs"):
        result = solve(shared, solver=name)
        assert (result.status, result.objective) == (Status.OPTIMAL, pytest.approx(best, rel=1e-9, abs=1e-9))


def test_a_forest_of_a_cluster_is_kept_apart() -> None:
    switches = [Switch("a", ("n1", "n2")), Switch("b", ("n3", "n4"))]
    cluster = Cluster.of([ClusterNode(f"n{number}", 2) for number in range(1, 5)], tree_of_switches(switches))
    asked = {"x": Request(2, 2, 2).on(cluster)}
    free = cluster.capacity.copy()
    free[[1, 3]] = 0
    problem = PlacementProblem.of(cluster, asked, free, np.zeros(4, dtype=np.bool_))
    for rule in ("first-fit", "best-fit", "cons-tres"):
        assert solve(problem, solver=rule).found().of_jobs == ((),)
    assert solve(PlacementProblem.of(cluster, asked), solver="cons-tres").objective == 2000.0


def test_the_same_seed_draws_the_same_window() -> None:
    one, again = (synthetic_placement("a", np.random.default_rng(3), 20) for _ in range(2))
    assert np.array_equal(one.free, again.free)
    assert [job.request.tasks for job in one.jobs] == [job.request.tasks for job in again.jobs]
    assert one.free[:, 0].sum() < 0.4 * 36_000 * 1000
