"""The verifier names every broken rule, and accepts exactly what brute force enumerates."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.brute_force import dcas_allocations, free_allocations, scas_allocations
from support.windows import window, windows

from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidSolutionError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.result import Result, Status
from allocopt.solving.solve import solve
from allocopt.solving.verify import check_stated, verify, verify_result

PROBLEM = window(FatTree(2, 2, 4), [0, 1, 3, 5, 8, 9, 12], [2, 3])


def allocation(*nodes: list[int]) -> Allocation:
    return Allocation(tuple(np.array(chosen, dtype=np.int64) for chosen in nodes))


def allowed(problem: TopologyProblem) -> set[tuple[int, ...]]:
    """Owners of all allocations that the verifier accepts."""
    accepted = set()
    for owners in free_allocations(problem):
        try:
            verify(problem, Allocation.of_owners(problem, np.array(owners)))
        except InvalidSolutionError:
            continue
        accepted.add(owners)
    return accepted


@given(windows(most_idle=7, most_jobs=3))
def test_it_accepts_exactly_what_brute_force_enumerates(problem: TopologyProblem) -> None:
    assert allowed(problem.with_strategy("scas")) == scas_allocations(problem)
    assert allowed(problem.with_strategy("dcas")) == dcas_allocations(problem)
    assert allowed(problem) == free_allocations(problem)


def test_it_returns_the_objective_recomputed() -> None:
    assert verify(PROBLEM, allocation([0, 1], [3, 5, 8])) == pytest.approx(1000 * (4 / 2 + 2 * (4 + 6 + 6) / 3))


@pytest.mark.parametrize(
    ("strategy", "nodes", "message"),
    [
        ("free", [[0, 1]], "1 node sets for 2 jobs"),
        ("free", [[0, 1], [3, 5, 8], [9]], "3 node sets for 2 jobs"),
        ("free", [[0], [3, 5, 8]], "'job-0' gets 1 nodes, asks for 2"),
        ("free", [[0, 1], [3, 5, 8, 9]], "'job-1' gets 4 nodes, asks for 3"),
        ("free", [[], [3, 5, 8]], "'job-0' gets 0 nodes, asks for 2"),
        ("free", [[0, 2], [3, 5, 8]], "'job-0' gets node 2, which is not idle"),
        ("free", [[0, 1], [3, 5, 13]], "'job-1' gets node 13, which is not idle"),
        ("free", [[0, 1], [3, 5, 4000]], "'job-1' gets node 4000, which is not idle"),
        ("free", [[-1, 0], [3, 5, 8]], "'job-0' gets node -1, which is not idle"),
        ("free", [[0, 1], [1, 5, 8]], "'job-1' gets node 1, which job 'job-0' has already"),
        ("free", [[0, 1], [5, 5, 8]], "'job-1' gets a node twice"),
        ("scas", [[0, 3], [5, 8, 9]], "scas: job 'job-0' is not contiguous: it is cut at node 3"),
        ("scas", [[0, 12], [1, 3, 8]], "scas: job 'job-1' is not contiguous: it is cut at node 8"),
        ("dcas", [[0, 3], [1, 5, 8]], "dcas: job 'job-0' and job 'job-1' cross at node 3"),
        ("dcas", [[1, 5], [8, 9, 12]], "dcas: the leftover and job 'job-0' cross at node 3"),
    ],
)
def test_every_rule_is_checked_and_job_and_node_are_named(strategy: str, nodes: list[list[int]], message: str) -> None:
    with pytest.raises(InvalidSolutionError) as caught:
        verify(PROBLEM.with_strategy(strategy), allocation(*nodes))
    assert message in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("objective", "stated", "bound", "sign", "message"),
    [
        (100.0, 100.001, None, 1.0, "stated objective is 100.001, recomputed it is 100"),
        (100.0, 99.99, None, 1.0, "stated objective is 99.99"),
        (100.0, None, None, 1.0, "stated objective is None"),
        (100.0, float("nan"), None, 1.0, "stated objective is nan"),
        (0.0, 1.0, None, 1.0, "stated objective is 1.0"),
        (100.0, 100.0, 100.1, 1.0, "bound 100.1 excludes"),
        (100.0, 100.0, 99.9, -1.0, "bound 99.9 excludes"),
        (100.0, 100.0, float("nan"), 1.0, "bound nan excludes"),
    ],
)
def test_a_wrong_objective_or_bound_is_named(
    objective: float, stated: float | None, bound: float | None, sign: float, message: str
) -> None:
    with pytest.raises(InvalidSolutionError, match=message):
        check_stated(objective, stated, bound, sign)


@pytest.mark.parametrize(("bound", "sign"), [(None, 1.0), (50.0, 1.0), (100.00005, 1.0), (150.0, -1.0)])
def test_what_is_equal_within_a_millionth_is_accepted(bound: float | None, sign: float) -> None:
    check_stated(100.0, 100.00005, bound, sign)


def result_of(**changes: Any) -> Result:
    return replace(solve(PROBLEM, strategy="free", solver="sequential"), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"solution": None, "status": Status.OPTIMAL}, "status is OPTIMAL, but it has no solution"),
        ({"solution": None, "status": Status.FEASIBLE}, "status is FEASIBLE, but it has no solution"),
        ({"objective": 1.0}, "stated objective"),
        ({"bound": 1e9}, "excludes"),
        ({"solution": allocation([0, 1], [1, 5, 8])}, "has already"),
        ({"status": Status.OPTIMAL}, "OPTIMAL"),
        ({"status": Status.OPTIMAL, "bound": 1.0}, "OPTIMAL"),
        ({"status": Status.INFEASIBLE}, "INFEASIBLE"),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSolutionError, match=message):
        verify_result(PROBLEM, result_of(**changes))


def test_an_answer_without_a_solution_that_claims_none_is_accepted() -> None:
    verify_result(PROBLEM, result_of(solution=None, objective=None, status=Status.UNKNOWN))
