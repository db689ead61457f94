"""Rules that place one job after the other: hand-made windows, obvious twins, and what Slurm itself gives."""

import os
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from support.slurm import chosen_by_slurm, missing, slurm_window
from support.windows import window, windows

from allocopt.cluster.topology import FatTree, Tree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.solve import solve


@pytest.mark.parametrize("strategy", list(Strategy))
@given(windows(most_idle=14, most_jobs=6))
def test_jobs_take_the_idle_nodes_one_after_the_other(strategy: Strategy, problem: TopologyProblem) -> None:
    nodes = solve(problem, strategy, "sequential").solution.nodes
    assert np.concatenate(nodes).tolist() == problem.idle_nodes[: problem.sizes.sum()].tolist()


def placed(solver: str, problem: TopologyProblem) -> list[list[int]]:
    return [nodes.tolist() for nodes in solve(problem, "free", solver).solution.nodes]


def best_fit(problem: TopologyProblem) -> list[list[int]]:
    """Place the jobs as they come under the lowest switch that holds them, leaf by leaf, every step looked up."""
    rows = [*problem.topology.groups_of(problem.idle_nodes).tolist(), [0] * len(problem.idle_nodes)]
    left, found = problem.idle_nodes.tolist(), []
    paths = dict(zip(left, zip(*rows, strict=True), strict=True))
    for size in problem.sizes.tolist():
        switches = [
            [[node for node in left if paths[node][at] == s] for s in sorted(set(row))] for at, row in enumerate(rows)
        ]
        under = next(min(fit, key=len) for level in switches if (fit := [one for one in level if len(one) >= size]))
        leaves = [[node for node in leaf if node in under] for leaf in switches[0]]
        nodes: list[int] = []
        while len(nodes) < size:
            missing = size - len(nodes)
            leaf = min((one for one in leaves if len(one) >= missing), key=len, default=max(leaves, key=len))
            nodes += leaf[:missing]
            leaves.remove(leaf)
        left = [node for node in left if node not in nodes]
        found.append(sorted(nodes))
    return found


Paths = dict[int, tuple[int, ...]]
"""By idle node the switches above it, from the top downwards."""


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


def by_level(problem: TopologyProblem) -> list[list[int]]:
    """Place the jobs, the largest first, from the top downwards."""
    idle = problem.idle_nodes.tolist()
    levels = problem.topology.groups_of(problem.idle_nodes)[::-1].T.tolist()
    paths = {node: tuple(path) for node, path in zip(idle, levels, strict=True)}
    left, found = idle, {}
    sizes = problem.sizes.tolist()
    for job in sorted(range(len(sizes)), key=lambda job: -sizes[job]):
        found[job] = taken(paths, left, sizes[job])
        left = [node for node in left if node not in found[job]]
    return [sorted(found[job]) for job in range(len(sizes))]


def test_a_pod_counts_as_full_as_it_was_before_the_job() -> None:
    # 13 are wanted of pods with 4 + 3 and 5 + 3 idle nodes. After the 5, 8 are missing: the second pod, which had 8,
    # still seems to hold them, so that its other leaf is emptied too.
    idle = [0, 1, 2, 3, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17]
    assert placed("slurm-tree", window(FatTree(2, 2, 5), idle, [13])) == [[0, 1, 2, 3, 5, *range(10, 18)]]


def obvious(problem: TopologyProblem) -> list[list[int]]:
    """Walk along the leaves switch by switch, every step by itself."""
    levels = problem.topology.groups_of(problem.idle_nodes)
    paths = [(*path, -1) for path in levels.T.tolist()] if len(levels) else [(-1,)] * len(problem.idle_nodes)
    left = dict(zip(problem.idle_nodes.tolist(), paths, strict=True))
    placed = []
    for size in problem.sizes.tolist():
        counts: dict[tuple[int, int], int] = {}
        for path in left.values():
            for switch in enumerate(path):
                counts[switch] = counts.get(switch, 0) + 1
        taken: list[tuple[int, ...]] = []
        nodes: list[int] = []
        while len(nodes) < size:
            leaf = walk(sorted(set(left.values()) - set(taken)), taken, counts, size - len(nodes))
            nodes += [node for node, path in left.items() if path == leaf][: size - len(nodes)]
            taken.append(leaf)
        left = {node: path for node, path in left.items() if node not in nodes}
        placed.append(sorted(nodes))
    return placed


def walk(
    leaves: Sequence[tuple[int, ...]], taken: Sequence[tuple[int, ...]], counts: dict[tuple[int, int], int], size: int
) -> tuple[int, ...]:
    """Return the best leaf at the end of a walk along all of them."""
    leaves = sorted(leaves, key=lambda path: path[0])
    best = leaves[0]
    for leaf in leaves[1:]:
        far, farthest = (sum(meeting(path, other) for other in taken) for path in (leaf, best))
        fit = compared(leaf, best, counts, size)
        if (far < farthest and fit >= 0) or (far == farthest and fit > 0):
            best = leaf
    return best


def meeting(path: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return the lowest level at which two leaves have the same switch above them."""
    return next(level for level in range(len(path)) if path[level] == other[level])


def compared(path: tuple[int, ...], other: tuple[int, ...], counts: dict[tuple[int, int], int], size: int) -> int:
    """Return what is positive if the first leaf fits better, negative if the second one does."""
    for level in range(meeting(path, other)):
        first, second = counts[level, path[level]], counts[level, other[level]]
        if first >= size and second >= size:
            return second - first
        if first >= size or second >= size:
            break
    return first - second


@pytest.mark.parametrize(
    ("solver", "twin"), [("best-fit", best_fit), ("best-fit-by-level", by_level), ("slurm-tree", obvious)]
)
@given(problem=windows(most_idle=14, most_jobs=6))
def test_it_takes_what_an_obvious_twin_takes(
    solver: str, twin: Callable[[TopologyProblem], list[list[int]]], problem: TopologyProblem
) -> None:
    assert placed(solver, problem) == twin(problem)


def scattered_window() -> TopologyProblem:
    """Return a window on leaves of several sizes, whose nodes and whose own numbers lie anywhere."""
    rng = np.random.default_rng(0)
    pods = rng.permutation(np.repeat(np.arange(5), 4))
    leaves = rng.permutation(np.repeat(np.arange(20), rng.integers(2, 10, size=20)))
    halls = np.array([0, 1, 0, 1, 1])[pods]
    groups = np.stack((leaves, pods[leaves], halls[leaves]))
    names = tuple(tuple(f"{depth}-{group}" for group in range(row.max() + 1)) for depth, row in enumerate(groups))
    idle = np.flatnonzero(rng.random(len(leaves)) < 0.8)
    return window(Tree(groups, names, (2, 4, 6, 8)), idle, [13, 4, 17, 9, 11, 2, 1])


@pytest.mark.slow
def test_every_job_gets_the_nodes_that_slurm_gives_it() -> None:
    if (fault := missing()) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(fault)
        pytest.skip(fault)
    problems = [*(slurm_window(seed) for seed in range(5)), scattered_window()]
    for problem, nodes in zip(problems, chosen_by_slurm(problems), strict=True):
        assert placed("slurm-tree", problem) == nodes
