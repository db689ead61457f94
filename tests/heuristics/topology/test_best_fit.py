"""Best-fit: the lowest switch that fits, then best fit over its leaves."""

import numpy as np
import pytest
from hypothesis import given
from support.clocks import LooksBudget
from support.windows import window, windows

from allocopt.cluster.topology import FatTree, Tree
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result
from heuristics.topology.production_rules import BestFit

TREE = FatTree(2, 2, 4)
"""Leaves 0-3, 4-7 (pod 0) and 8-11, 12-15 (pod 1)."""


def best_fit(problem: TopologyProblem) -> list[list[int]]:
    return [nodes.tolist() for nodes in solve(problem, "free", "best-fit").solution.nodes]


@pytest.mark.parametrize(
    ("idle", "sizes", "nodes"),
    [
        # The leaf with the fewest idle nodes that fits: 3 idle in leaf 1, 4 in leaf 2.
        ([0, 1, 4, 5, 6, 8, 9, 10, 11], [3], [[4, 5, 6]]),
        # No leaf fits 5, pod 0 has 5 idle and pod 1 has 6: pod 0, first its fullest leaf, then what is missing.
        ([0, 1, 4, 5, 6, 8, 9, 10, 12, 13, 14], [5], [[0, 1, 4, 5, 6]]),
        # In pod 1 the leaf with the most idle nodes (12-15) gives all, then the fewest that hold the rest (2 of 3).
        ([0, 8, 9, 10, 12, 13, 14, 15], [6], [[8, 9, 12, 13, 14, 15]]),
        # No pod fits 7: the whole machine; 4 from 8-11, then 3 missing fit exactly into 4-6 rather than into 12-15.
        ([0, 4, 5, 6, 8, 9, 10, 11], [7], [[4, 5, 6, 8, 9, 10, 11]]),
        # The jobs come in their order, not the largest first: the small one spoils the full leaf.
        ([0, 1, 2, 3, 8], [1, 4], [[8], [0, 1, 2, 3]]),
        ([0, 1, 2, 3], [1, 3], [[0], [1, 2, 3]]),
        # A tie goes to the first leaf.
        ([0, 1, 4, 5], [2], [[0, 1]]),
    ],
)
def test_hand_made_windows_follow_the_rule(idle: list[int], sizes: list[int], nodes: list[list[int]]) -> None:
    assert best_fit(window(TREE, idle, sizes)) == nodes


def test_under_a_switch_the_last_leaf_is_the_one_that_fits_best() -> None:
    # Five are wanted under one switch with leaves of 4, 3 and 2 idle nodes: 4, then the leaf with the fewest for 1.
    tree = Tree.from_levels([{"a": [0, 1, 2, 3], "b": [4, 5, 6], "c": [7, 8]}])
    assert best_fit(window(tree, range(9), [5])) == [[0, 1, 2, 3, 7]]


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_on_any_depth_the_lowest_switch_that_fits_is_taken(levels: int) -> None:
    # 16 nodes in leaves of 2, rows of 4, halls of 8, as far as there are levels below the top.
    spans = [2**depth for depth in range(1, levels)]
    groups = np.array([np.arange(16) // span for span in spans], dtype=np.int64).reshape(levels - 1, 16)
    names = tuple(tuple(f"{span}-{group}" for group in range(16 // span)) for span in spans)
    tree = Tree(groups, names, tuple(range(2, 2 * levels + 1, 2)))
    for size in (1, 2, 3, 4, 5, 8, 9, 16):
        lowest = next((span for span in spans if span >= size), 16)
        assert {node // lowest for node in best_fit(window(tree, range(16), [size]))[0]} == {0}


@given(windows(most_idle=14, most_jobs=6))
def test_every_job_stays_under_the_lowest_switch_that_had_room(problem: TopologyProblem) -> None:
    left = set(problem.idle_nodes.tolist())
    for nodes, size in zip(best_fit(problem), problem.sizes.tolist(), strict=True):
        switches = [[tuple(sorted(left))]]
        levels = problem.topology.groups_of(problem.idle_nodes)
        for row in levels[::-1]:
            groups: dict[int, list[int]] = {}
            for node, group in zip(problem.idle_nodes.tolist(), row.tolist(), strict=True):
                if node in left:
                    groups.setdefault(group, []).append(node)
            switches.append([tuple(members) for members in groups.values()])
        lowest = next(level for level in switches[::-1] if max(map(len, level)) >= size)
        fewest = min(len(members) for members in lowest if len(members) >= size)
        assert any(set(nodes) <= set(members) and len(members) == fewest for members in lowest)
        left -= set(nodes)


@pytest.mark.parametrize("looks", [0, 1, 2, 3])
def test_jobs_that_are_late_take_the_first_idle_nodes(looks: int) -> None:
    problem = window(FatTree(2, 2, 4), [0, 1, 4, 5, 6, 8, 9, 10, 11, 12], [3, 2, 2, 2])
    cut_off = BestFit().solve(problem, LooksBudget(looks=looks), 0)
    verify_result(problem, cut_off)
    whole = BestFit().solve(problem, Budget(), 0)
    for placed, late in zip(whole.solution.nodes[:looks], cut_off.solution.nodes[:looks], strict=True):
        assert placed.tolist() == late.tolist()
    taken = {node for nodes in cut_off.solution.nodes[:looks] for node in nodes.tolist()}
    left = [node for node in problem.idle_nodes.tolist() if node not in taken]
    rest = [node for nodes in cut_off.solution.nodes[looks:] for node in nodes.tolist()]
    assert rest == left[: len(rest)]
    assert cut_off.stopped_by is StopReason.TIME_LIMIT


@pytest.mark.parametrize(("idle", "jobs"), [(1_000_001, 1), (30_000, 20_001)])
def test_beyond_the_stated_size_it_says_so_at_once(idle: int, jobs: int) -> None:
    problem = window(FatTree(100, 100, 101), range(idle), [1] * jobs)
    assert "1,000,000 idle nodes, 20,000 jobs are taken" in (BestFit().refusal(problem) or "")
