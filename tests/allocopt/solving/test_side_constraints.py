"""Rules of jobs and weights of fragmentation: models, solves and Pareto fronts."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.brute_force import free_allocations
from support.side import keeps, ruled_optimum, ruled_windows
from support.windows import paper_window, window, windows

from allocopt.cluster.topology import FatTree, Tree, hop_costs
from allocopt.errors import InvalidProblemError, InvalidSolutionError, UsageError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.side_constraints import Groups, Preference, Segments, SideConstraints
from allocopt.solving.result import Status
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from allocopt.topology import pareto_front

CLUSTER = FatTree(2, 2, 4)
CLUSTER_OF_FIVES = FatTree(2, 3, 5)
NESTED = (Segments(4, "pod"), Segments(2, "leaf"))


def ruled(placement: SideConstraints, size: int = 4, weight: float = 0.0) -> TopologyProblem:
    problem = window(CLUSTER, range(16), [size, 2])
    first = replace(problem.jobs[0], placement=placement)
    return replace(problem, jobs=(first, problem.jobs[1]), fragmentation_weight=weight)


def given_to_first(*nodes: int) -> Allocation:
    return Allocation((np.array(nodes), np.array([14, 15])))


@pytest.mark.parametrize(
    ("placement", "nodes", "message"),
    [
        (
            SideConstraints(not_in=(Groups("leaf", (1,)),)),
            (0, 1, 4, 5),
            "'job-0' has 2 nodes in leaf 1, which its rules do not",
        ),
        (SideConstraints(only_in=(Groups("pod", (0,)),)), (0, 1, 2, 9), "'job-0' has 1 nodes in leaf 2"),
        (
            SideConstraints(within="pod"),
            (0, 1, 2, 9),
            "'job-0' has 3 of its 4 nodes in pod 0, must have all of them in one",
        ),
        (SideConstraints(segments=(Segments(2, 1),)), (0, 1, 4, 8), "has 1 nodes in leaf 1, must have a multiple of 2"),
        (SideConstraints(segments=NESTED), (0, 1, 8, 9), "'job-0' has 2 nodes in pod 0, must have a multiple of 4"),
        (SideConstraints(segments=NESTED), (0, 1, 2, 4), "'job-0' has 3 nodes in leaf 0, must have a multiple of 2"),
    ],
)
def test_a_broken_rule_is_named_with_job_group_and_count(
    placement: SideConstraints, nodes: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InvalidSolutionError, match=message):
        verify(ruled(placement), given_to_first(*nodes))


def test_a_group_with_a_name_is_named() -> None:
    tree = Tree.from_levels([{"east": [0, 1, 2], "west": [3, 4, 5]}])
    problem = window(tree, range(6), [2])
    job = replace(problem.jobs[0], placement=SideConstraints(not_in=(Groups(1, ("west",)),)))
    with pytest.raises(InvalidSolutionError, match="has 1 nodes in leaf 'west'"):
        verify(replace(problem, jobs=(job,)), Allocation((np.array([2, 3]),)))


@given(ruled_windows(most_idle=6, most_jobs=2))
def test_exactly_the_allocations_that_keep_to_the_definitions_are_valid(problem: TopologyProblem) -> None:
    levels = problem.topology.groups_of(problem.idle_nodes)
    leaf_of = np.unique(levels[0], return_inverse=True)[1] if len(levels) else np.zeros(len(problem.idle_nodes), int)
    for owners in free_allocations(problem):
        allocation = Allocation.of_owners(problem, np.array(owners))
        held = [
            np.bincount(leaf_of[np.array(owners) == job], minlength=leaf_of.max() + 1)
            for job in range(len(problem.jobs))
        ]
        valid = all(keeps(problem, job, tuple(row.tolist())) for job, row in zip(problem.jobs, held, strict=True))
        if valid:
            verify(problem, allocation)
        else:
            with pytest.raises(InvalidSolutionError, match="job 'job-"):
                verify(problem, allocation)


def test_penalty_and_fragmentation_are_part_of_the_objective() -> None:
    problem = ruled(SideConstraints(prefer=Preference("leaf", 700.0)), weight=0.5)
    allocation = given_to_first(0, 1, 4, 5)
    left = np.array([2, 3, 6, 7, 8, 9, 10, 11, 12, 13])
    hops = hop_costs(CLUSTER, 1000.0, [*allocation.nodes, left])
    assert problem.fragmentation(allocation) == pytest.approx(hops[2])
    assert verify(problem, allocation) == pytest.approx(hops[0] + hops[1] + 700.0 + 0.5 * hops[2])
    together = given_to_first(0, 1, 2, 3)
    hops = hop_costs(CLUSTER, 1000.0, together.nodes)
    assert verify(problem, together) == pytest.approx(hops.sum() + 0.5 * problem.fragmentation(together))


@pytest.mark.parametrize("solver", ["auto", "exact", "greedy", "lns"])
def test_segments_of_two_levels_are_kept_where_those_of_one_cost_less(solver: str) -> None:
    # Twelve nodes of one pod are idle, and eight of the other.
    problem = window(CLUSTER_OF_FIVES, [*range(12), *range(15, 23)], [12])
    inner, outer = Segments(2, 1), Segments(6, 2)
    costs = []
    for segments in ((inner,), (outer, inner)):
        job = replace(problem.jobs[0], placement=SideConstraints(segments=segments))
        found = solve(replace(problem, jobs=(job,)), solver=solver, time_limit=None, iterations=200).found()
        counts = np.bincount(CLUSTER_OF_FIVES.groups_of(found.nodes[0])[1]).tolist()
        assert len(segments) == 1 or counts == [6, 6]
        costs.append(ruled_optimum(replace(problem, jobs=(job,))))
        assert verify(replace(problem, jobs=(job,)), found) == pytest.approx(costs[-1])
    assert costs[0] < costs[1]


@pytest.mark.parametrize("solver", ["auto", "exact"])
def test_rules_that_nothing_keeps_are_infeasible(solver: str) -> None:
    result = solve(ruled(SideConstraints(within="leaf"), size=5), solver=solver)
    assert result.status is Status.INFEASIBLE
    assert result.solution is None


WEIGHTS = (0.0, 0.01, 0.3, 1.0, 4.0, 100.0)


def every_pair(problem: TopologyProblem) -> list[tuple[float, float]]:
    """Both objectives of all allocations."""
    plain, pairs = replace(problem, fragmentation_weight=0.0), set()
    for owners in free_allocations(problem):
        allocation = Allocation.of_owners(problem, np.array(owners))
        try:
            pairs.add((verify(plain, allocation), problem.fragmentation(allocation)))
        except InvalidSolutionError:
            continue
    return sorted(pairs)


@settings(max_examples=25, deadline=None)
@given(windows(most_idle=7, most_jobs=2) | ruled_windows(most_idle=7, most_jobs=2))
def test_every_point_is_on_the_front_of_all_allocations(problem: TopologyProblem) -> None:
    pairs = every_pair(problem)
    front = pareto_front(problem, WEIGHTS, solver="exact", time_limit=None)
    assert bool(front) is bool(pairs)
    for weight in WEIGHTS[1:]:
        best = min((cost + weight * left for cost, left in pairs), default=None)
        if best is not None and all(point.proved for point in front):
            found = min(point.cost + weight * point.fragmentation for point in front)
            assert found == pytest.approx(best, rel=1e-6, abs=1e-6)
    for point in front:
        slack = 1e-6 * max(1.0, point.cost, point.fragmentation)
        better = [pair for pair in pairs if pair[0] < point.cost - slack and pair[1] < point.fragmentation - slack]
        assert not better


@pytest.mark.slow
def test_on_a_window_of_the_paper_the_front_trades_cost_for_fragmentation() -> None:
    front = pareto_front(paper_window(0), WEIGHTS, solver="lns", time_limit=0.2)
    assert len(front) >= 2
    costs, left = [point.cost for point in front], [point.fragmentation for point in front]
    assert costs == sorted(costs)
    assert left == sorted(left, reverse=True)
    assert len(set(costs)) == len(set(left)) == len(front)


OPEN, LEAF = window(CLUSTER, range(16), [4, 3]), ruled(SideConstraints(within="leaf"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OPEN.without_nodes([16]), "node 16 is outside"),
        (lambda: OPEN.without_nodes(range(10)), "ask for 7 nodes together, but only 6 are idle"),
        (lambda: ruled(SideConstraints(prefer=Preference("pod", float("nan")))), r"jobs\[0\]\.prefer\.penalty: is nan"),
        (lambda: ruled(SideConstraints(), weight=-1.0), "fragmentation_weight: is -1"),
        (lambda: solve(LEAF, solver="best-fit"), "'best-fit' does not take placement rules .*: auto, exact, greedy"),
        (lambda: solve(LEAF, strategy="dcas", solver="dp"), "are for strategy free, not for dcas"),
        (lambda: pareto_front(OPEN, []), "at least one weight"),
        (lambda: pareto_front(OPEN, [1.0], solver="best-fit"), "'best-fit' does not take placement rules and frag"),
    ],
)
def test_what_cannot_be_ruled_or_weighted_is_told(make: Callable[[], object], message: str) -> None:
    with pytest.raises((InvalidProblemError, UsageError), match=message):
        make()


def test_empty_rules_are_honoured_by_every_solver_and_excluded_nodes_are_not_idle() -> None:
    assert solve(ruled(SideConstraints()), solver="best-fit").status is Status.FEASIBLE
    assert OPEN.without_nodes([0, 1, 5, 15, 15]).idle_nodes.tolist() == [2, 3, 4, *range(6, 15)]
