"""Best fit by level: from the top down, the child with the fewest idle nodes that holds a job, largest jobs first."""

import pytest
from hypothesis import given
from support.windows import window, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.solve import solve

TREE = FatTree(2, 2, 4)
"""Leaves 0-3, 4-7 (pod 0) and 8-11, 12-15 (pod 1)."""

Paths = dict[int, tuple[int, ...]]
"""By idle node the switches above it, from the top downwards."""


def by_level(problem: TopologyProblem) -> list[list[int]]:
    return [sorted(nodes.tolist()) for nodes in solve(problem, "free", "best-fit-by-level").solution.nodes]


@pytest.mark.parametrize(
    ("idle", "sizes", "nodes"),
    [
        # Pod 0 holds 3 with fewer idle nodes than pod 1; in it leaf 4-7 fits.
        ([0, 1, 4, 5, 6, 8, 9, 10, 11, 12, 13], [3], [[4, 5, 6]]),
        # No pod holds 7: pod 1 is emptied, and the missing node comes from the leaf of pod 0 with the fewest.
        ([0, 4, 5, 8, 9, 10, 12, 13, 14], [7], [[0, 8, 9, 10, 12, 13, 14]]),
        # The largest job comes first: the full leaf is for it.
        ([0, 1, 2, 3, 8], [1, 4], [[8], [0, 1, 2, 3]]),
    ],
)
def test_hand_made_windows_follow_the_rule(idle: list[int], sizes: list[int], nodes: list[list[int]]) -> None:
    assert by_level(window(TREE, idle, sizes)) == nodes


def taken(paths: Paths, left: list[int], size: int) -> list[int]:
    """Nodes that a job takes under one switch, looked up one by one."""
    if not paths[left[0]]:
        return left[:size]
    children: dict[int, list[int]] = {}
    for node in left:
        children.setdefault(paths[node][0], []).append(node)
    below = {node: path[1:] for node, path in paths.items()}
    found: list[int] = []
    while len(found) < size:
        missing = size - len(found)
        fitting = [child for child in sorted(children) if len(children[child]) >= missing]
        emptied = max(sorted(children), key=lambda child: len(children[child]))
        child = min(fitting, key=lambda child: len(children[child])) if fitting else emptied
        found += taken(below, children[child], min(missing, len(children[child])))
        del children[child]
    return found


@given(windows(most_idle=14, most_jobs=6))
def test_it_takes_what_an_obvious_twin_takes(problem: TopologyProblem) -> None:
    idle = problem.idle_nodes.tolist()
    levels = problem.topology.groups_of(problem.idle_nodes)[::-1].T.tolist()
    paths = {node: tuple(path) for node, path in zip(idle, levels, strict=True)}
    left, expected = idle, {}
    sizes = problem.sizes.tolist()
    for job in sorted(range(len(sizes)), key=lambda job: -sizes[job]):
        expected[job] = taken(paths, left, sizes[job])
        left = [node for node in left if node not in expected[job]]
    assert by_level(problem) == [sorted(expected[job]) for job in range(len(sizes))]
