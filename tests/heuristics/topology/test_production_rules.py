"""Rules that place one job after the other: hand-made windows, obvious twins, and what Slurm itself gives."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from support.slurm import chosen_by_slurm, is_known, missing, recorded_windows, release, rule_of, slurm_window, version
from support.windows import window, windows

from allocopt.cluster.topology import FatTree, Tree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.solve import solve
from benchmarks.virtual_slurm import plugin_lines


@pytest.mark.parametrize("strategy", list(Strategy))
@given(windows(most_idle=14, most_jobs=6))
def test_jobs_take_the_idle_nodes_one_after_the_other(strategy: Strategy, problem: TopologyProblem) -> None:
    nodes = solve(problem, strategy=strategy, solver="sequential").solution.nodes
    assert np.concatenate(nodes).tolist() == problem.idle_nodes[: problem.sizes.sum()].tolist()


def placed(solver: str, problem: TopologyProblem) -> list[list[int]]:
    return [nodes.tolist() for nodes in solve(problem, strategy="free", solver=solver).solution.nodes]


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


Leaf = tuple[int, ...]
"""A leaf as the switches above it, from the leaf itself up to the top switch, -1."""


def slurm_tree(problem: TopologyProblem) -> list[list[int]]:
    """Place the jobs as Slurm does since 26.05, every step looked up."""

    def job(left: dict[int, Leaf], size: int) -> list[int]:
        if size == 1:
            return [min(left)]
        found: list[int] = []
        taken: list[Leaf] = []
        while len(found) < size:
            # Nodes of leaves that the job has taken no longer count.
            counted = {node: leaf for node, leaf in left.items() if leaf not in taken}
            missing = size - len(found)
            best, *later = sorted(set(counted.values()), key=lambda leaf: leaf[0])
            for leaf in later:
                own, others = compared(leaf, best, counted, missing)
                far, farthest = distance(leaf, taken), distance(best, taken)
                if (far < farthest and own >= missing) or (far == farthest and fits_better(own, others, missing)):
                    best = leaf
            found += [node for node, leaf in left.items() if leaf == best][:missing]
            taken.append(best)
        return found

    return one_by_one(problem, job)


def slurm_tree_2205(problem: TopologyProblem) -> list[list[int]]:
    """Place the jobs as Slurm did until 24.05.2, every step looked up."""

    def job(left: dict[int, Leaf], size: int) -> list[int]:
        found: list[int] = []
        taken: list[Leaf] = []
        while len(found) < size:
            missing = size - len(found)
            best, *later = sorted(set(left.values()) - set(taken), key=lambda leaf: leaf[0])
            for leaf in later:
                # The nodes that the job has taken still count for the switches above them.
                own, others = compared(leaf, best, left, missing)
                far, farthest = distance(leaf, taken), distance(best, taken)
                is_no_worse = not fits_better(others, own, missing)
                if (far < farthest and is_no_worse) or (far == farthest and fits_better(own, others, missing)):
                    best = leaf
            found += [node for node, leaf in left.items() if leaf == best][:missing]
            taken.append(best)
        return found

    return one_by_one(problem, job)


def one_by_one(problem: TopologyProblem, job: Callable[[dict[int, Leaf], int], list[int]]) -> list[list[int]]:
    """Place one job after the other on the nodes that are left, each with its leaf."""
    levels = problem.topology.groups_of(problem.idle_nodes)
    leaves = [(*path, -1) for path in levels.T.tolist()] if len(levels) else [(-1,)] * len(problem.idle_nodes)
    left = dict(zip(problem.idle_nodes.tolist(), leaves, strict=True))
    found = []
    for size in problem.sizes.tolist():
        nodes = job(left, size)
        left = {node: leaf for node, leaf in left.items() if node not in nodes}
        found.append(sorted(nodes))
    return found


def compared(leaf: Leaf, other: Leaf, counted: dict[int, Leaf], missing: int) -> tuple[int, int]:
    """Return the idle nodes of the switches above two leaves at the level at which these are compared."""
    pairs = [
        tuple(sum(one[level] == switch for one in counted.values()) for switch in (leaf[level], other[level]))
        for level in range(meeting(leaf, other))
    ]
    own, others = next((pair for pair in pairs if max(pair) >= missing), pairs[-1])
    return own, others


def fits_better(nodes: int, others: int, missing: int) -> bool:
    """Return whether so many idle nodes fit better than others."""
    if nodes >= missing and others >= missing:
        return nodes < others
    return nodes > others


def distance(leaf: Leaf, taken: Sequence[Leaf]) -> int:
    """Return the links between a leaf and all that are taken."""
    return sum(2 * meeting(leaf, other) for other in taken)


def meeting(leaf: Leaf, other: Leaf) -> int:
    """Return the lowest level at which two leaves have the same switch above them."""
    return next(level for level in range(len(leaf)) if leaf[level] == other[level])


@pytest.mark.parametrize(
    ("solver", "twin"),
    [
        ("best-fit", best_fit),
        ("best-fit-by-level", by_level),
        ("slurm-tree", slurm_tree),
        ("slurm-tree-22.05", slurm_tree_2205),
    ],
)
@given(problem=windows(most_idle=14, most_jobs=6))
def test_it_takes_what_an_obvious_twin_takes(
    solver: str, twin: Callable[[TopologyProblem], list[list[int]]], problem: TopologyProblem
) -> None:
    assert placed(solver, problem) == twin(problem)


@pytest.mark.parametrize(("solver", "twin"), [("slurm-tree", slurm_tree), ("slurm-tree-22.05", slurm_tree_2205)])
@pytest.mark.parametrize("seed", range(10))
def test_it_takes_what_an_obvious_twin_takes_on_the_machine_that_slurm_was_asked_about(
    solver: str, twin: Callable[[TopologyProblem], list[list[int]]], seed: int
) -> None:
    problem = slurm_window(seed)
    assert placed(solver, problem) == twin(problem)


# Two pods with 6 and 7 idle nodes, the second one in leaves of 3, 2 and 2.
TWO_PODS = (FatTree(2, 3, 4), [0, 1, 4, 5, 8, 9, 12, 13, 14, 16, 17, 20, 21])
# Three pods with leaves of 2 and 2, 3 and 3, and 3 idle nodes.
THREE_PODS = (FatTree(3, 2, 3), [0, 1, 3, 4, *range(6, 15)])


def test_a_job_stays_in_the_pod_that_holds_it() -> None:
    # It takes the 3 first, the largest leaf of the only pod with 7. The 4 left in this pod are nearer, and enough.
    assert placed("slurm-tree", window(*TWO_PODS, [7])) == [[12, 13, 14, 16, 17, 20, 21]]
    # To 22.05 this pod still has 7, and the 6 of the other pod fit the missing 4 better.
    assert placed("slurm-tree-22.05", window(*TWO_PODS, [7])) == [[0, 1, 4, 5, 12, 13, 14]]


def test_a_nearer_leaf_without_enough_above_it_is_not_preferred() -> None:
    # The second pod has the most, and 3 are taken there. No pod has the missing 6: the first leaf stays the best one.
    assert placed("slurm-tree", window(*THREE_PODS, [9])) == [[0, 1, 3, *range(6, 12)]]
    # 22.05 prefers the nearer leaf, which fits no worse, and then the leaf with exactly the missing 3.
    assert placed("slurm-tree-22.05", window(*THREE_PODS, [9])) == [[*range(6, 15)]]


@pytest.mark.parametrize("solver", ["slurm-tree", "slurm-tree-22.05"])
def test_a_far_leaf_that_holds_all_that_is_missing_comes_before_near_ones_that_do_not(solver: str) -> None:
    # 4 are taken in the second pod, the only one with 9. It has 2 and 3 of the missing 5, a leaf of the first has 6.
    idle = [*range(6), 18, 19, 24, 25, 26, 30, 31, 32, 33]
    assert placed(solver, window(FatTree(2, 3, 6), idle, [9])) == [[0, 1, 2, 3, 4, 30, 31, 32, 33]]


def test_a_job_of_one_node_gets_the_first_idle_node() -> None:
    # 22.05 looks for the leaf with the fewest idle nodes.
    problem = window(FatTree(2, 2, 3), [1, 2, 5, 6], [1, 1])
    assert placed("slurm-tree", problem) == [[1], [2]]
    assert placed("slurm-tree-22.05", problem) == [[5], [6]]


def test_to_slurm_22_05_a_pod_counts_as_full_as_it_was_before_the_job() -> None:
    # 13 are wanted of pods with 4 + 3 and 5 + 3 idle nodes. After the 5, 8 are missing: the second pod, which had 8,
    # still seems to hold them, so that its other leaf is emptied too.
    idle = [0, 1, 2, 3, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17]
    assert placed("slurm-tree-22.05", window(FatTree(2, 2, 5), idle, [13])) == [[0, 1, 2, 3, 5, *range(10, 18)]]


def test_every_job_gets_the_nodes_that_slurm_26_11_gave_it(shared_data: Path) -> None:
    for recorded in recorded_windows(shared_data):
        assert placed("slurm-tree", recorded.problem) == recorded.placed, recorded.problem.name


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
    rules = [rule_of(release(version()), problem) for problem in problems]
    for problem, rule, nodes in zip(problems, rules, chosen_by_slurm(problems), strict=True):
        assert rule is None or placed(rule, problem) == nodes


@pytest.mark.parametrize(
    ("found", "rules"),
    [
        ("slurm-wlm 22.05.8", ("slurm-tree-22.05", "slurm-tree-22.05")),
        ("slurm-wlm 24.11.5", (None, "slurm-tree")),
        ("slurm 25.11.2", (None, "slurm-tree")),
        ("slurm 26.05.0", ("slurm-tree", "slurm-tree")),
        ("slurm 26.11.0-0rc1", ("slurm-tree", "slurm-tree")),
    ],
)
def test_each_release_of_slurm_is_compared_with_its_own_rule(found: str, rules: tuple[str | None, ...]) -> None:
    problems = [window(FatTree(1, 1, 4), range(4), sizes) for sizes in ([1, 2], [2, 2])]
    assert is_known(release(found))
    assert tuple(rule_of(release(found), problem) for problem in problems) == rules


@pytest.mark.parametrize("found", ["slurm 23.02.7", "slurm 24.05.2", "slurm 24.05.4"])
def test_a_slurm_between_the_two_rules_is_not_compared(found: str) -> None:
    assert not is_known(release(found))


def test_the_plugins_of_a_slurm_that_was_built_here_are_named(tmp_path: Path) -> None:
    for folder in ("sbin", "lib/slurm"):
        (tmp_path / folder).mkdir(parents=True)
    assert plugin_lines(tmp_path / "sbin" / "slurmctld") == []
    (tmp_path / "lib" / "slurm" / "topology_tree.so").touch()
    assert plugin_lines(tmp_path / "sbin" / "slurmctld") == [f"PluginDir={tmp_path / 'lib' / 'slurm'}"]
