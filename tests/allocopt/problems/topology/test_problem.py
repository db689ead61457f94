"""Problems are validated once when made, and cannot be changed after."""

from typing import Any

import numpy as np
import pytest
from support.windows import window

from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.problems.base import Strategy
from allocopt.problems.topology.problem import LARGEST_HOP_COST, LEAST_HOP_COST, Allocation, Job, TopologyProblem

TREE = FatTree(2, 2, 2)


def problem_of(**changes: Any) -> TopologyProblem:
    fields: dict[str, Any] = {"topology": TREE, "idle_nodes": np.array([5, 0, 3]), "jobs": (Job("a", 2), Job("b", 1))}
    return TopologyProblem(**{**fields, **changes})


def test_idle_nodes_are_sorted_and_frozen() -> None:
    given = np.array([5, 0, 3])
    problem = problem_of(idle_nodes=given)
    given[0] = 7
    assert problem.idle_nodes.tolist() == [0, 3, 5]
    with pytest.raises(ValueError, match="read-only"):
        problem.idle_nodes[0] = 1


@pytest.mark.parametrize(
    ("changes", "place", "fault"),
    [
        ({"topology": (2, 2, 2)}, "topology", "is (2, 2, 2), must be a topology, such as FatTree("),
        ({"jobs": [("a", 2)]}, "jobs[0]", "is ('a', 2), must be a Job"),
        ({"jobs": [Job("a", 1), Job(1, 2)]}, "jobs[1].id", "is 1, must be a text"),  # type: ignore[arg-type]
        ({"jobs": [Job("a", 2, "leaf")]}, "jobs[0].placement", "must be a SideConstraints"),  # type: ignore[arg-type]
        ({"idle_nodes": np.array([0, 3, -1])}, "idle_nodes[2]", "node -1"),
        ({"idle_nodes": np.array([0.5, 1.0, 2.0])}, "idle_nodes", "integers"),
        ({"idle_nodes": np.array([[0, 1, 2]])}, "idle_nodes", "integers"),
        ({"jobs": ()}, "jobs", "empty"),
        ({"jobs": (Job("a", 1), Job("b", 0))}, "jobs[1].nodes", "'b' asks for 0"),
        ({"jobs": (Job("a", 1.5),)}, "jobs[0].nodes", ""),  # type: ignore[arg-type]
        ({"jobs": (Job("a", float("nan")),)}, "jobs[0].nodes", ""),  # type: ignore[arg-type]
        ({"idle_nodes": np.array([], dtype=np.int64)}, "jobs", "only 0 are idle"),
        ({"hop_cost": float("nan")}, "hop_cost", "within"),
        ({"hop_cost": LEAST_HOP_COST / 2}, "hop_cost", "within"),
        ({"hop_cost": 2 * LARGEST_HOP_COST}, "hop_cost", "within"),
    ],
)
def test_a_wrong_problem_is_refused_and_its_place_named(changes: dict[str, Any], place: str, fault: str) -> None:
    with pytest.raises(InvalidProblemError) as caught:
        problem_of(**changes)
    assert caught.value.place == place
    assert fault in caught.value.fault


def test_a_list_of_jobs_becomes_a_tuple_in_its_order_and_may_fill_the_window_to_the_last_node() -> None:
    assert problem_of(jobs=[Job("b", 1), Job("a", 2)]).jobs == (Job("b", 1), Job("a", 2))


def test_a_strategy_may_be_given_by_name_and_another_one_leaves_the_window_as_it_is() -> None:
    assert [problem_of(strategy=str(one)).strategy for one in Strategy] == list(Strategy)
    problem = problem_of(name="w", hop_cost=7.0)
    scas = problem.with_strategy("scas")
    assert (problem.strategy, scas.strategy) == (Strategy.FREE, Strategy.SCAS)
    assert (scas.name, scas.hop_cost, scas.jobs, scas.topology) == ("w", 7.0, problem.jobs, TREE)


def test_an_allocation_goes_to_job_ids_and_back() -> None:
    problem = window(TREE, [0, 3, 5], [2, 1])
    allocation = Allocation((np.array([0, 5]), np.array([3])))
    by_id = allocation.as_dict(problem)
    assert by_id == {"job-0": [0, 5], "job-1": [3]}
    again = Allocation.from_dict(problem, {"job-1": [3], "job-0": [0, 5]})
    assert [nodes.tolist() for nodes in again.nodes] == [[0, 5], [3]]


@pytest.mark.parametrize(
    ("nodes", "fault"),
    [({"job-0": [0, 3]}, "'job-1' has no nodes"), ({"job-0": [0], "job-1": [3], "x": [5]}, "'x' is not in")],
)
def test_an_allocation_of_other_jobs_is_refused(nodes: dict[str, list[int]], fault: str) -> None:
    with pytest.raises(InvalidSolutionError, match=fault):
        Allocation.from_dict(window(TREE, [0, 3, 5], [2, 1]), nodes)


def test_an_allocation_is_frozen() -> None:
    nodes = np.array([0, 5])
    allocation = Allocation((nodes,))
    nodes[0] = 3
    assert allocation.nodes[0].tolist() == [0, 5]
    with pytest.raises(ValueError, match="read-only"):
        allocation.nodes[0][0] = 3
