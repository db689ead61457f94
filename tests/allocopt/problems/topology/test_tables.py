"""A window as arrays: groups and their tree, blocks, and the ways from positions back to nodes."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from support.brute_force import switches_above
from support.windows import window, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import Blocks, encode, group_tree


@given(windows(most_idle=12))
def test_groups_are_those_of_the_idle_nodes_renumbered_and_weights_the_hops_to_the_next_level(
    problem: TopologyProblem,
) -> None:
    encoding = encode(problem)
    above = switches_above(problem.topology)
    assert encoding.n_idle == len(problem.idle_nodes)
    for level, groups in enumerate(encoding.groups):
        assert sorted(set(groups.tolist())) == list(range(int(encoding.n_groups[level])))
        named = [above[node][level] for node in problem.idle_nodes]
        pairs = set(zip(groups.tolist(), named, strict=True))
        assert len(pairs) == len(set(groups.tolist())) == len(set(named))
    hops = problem.topology.hops
    assert (encoding.bottom, encoding.top) == (hops[0], hops[-1])
    assert encoding.bottom + np.cumsum(encoding.weights) == pytest.approx(hops[1:])


def test_numbers_of_kernels_are_floats_whatever_the_caller_gave() -> None:
    problem = replace(window(FatTree(2, 2, 2), range(8), [3]), hop_cost=7)
    encoding = encode(problem)
    assert all(type(value) is float for value in (encoding.bottom, encoding.top, encoding.scale))


def test_blocks_and_positions_wrap_around_the_end_of_the_sequence_and_become_sorted_nodes() -> None:
    problem = window(FatTree(1, 2, 5), [1, 3, 4, 8], [2, 2])
    blocks = Allocation.of_blocks(problem, np.array([3, 1]))
    assert [nodes.tolist() for nodes in blocks.nodes] == [[1, 8], [3, 4]]
    at = Allocation.at(problem, [np.array([2, 0]), np.array([7, 5])])
    assert [nodes.tolist() for nodes in at.nodes] == [[1, 4], [3, 8]]


@given(windows(most_idle=12, most_jobs=5))
def test_owners_become_an_allocation_and_owners_again(problem: TopologyProblem) -> None:
    rng = np.random.default_rng(len(problem.idle_nodes))
    owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    jobs = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    owners[: len(jobs)] = jobs
    owners = rng.permutation(owners)
    allocation = Allocation.of_owners(problem, owners)
    assert [len(nodes) for nodes in allocation.nodes] == problem.sizes.tolist()
    assert all((np.diff(nodes) > 0).all() for nodes in allocation.nodes)
    assert allocation.owners(problem).tolist() == owners.tolist()


@given(windows(most_idle=14))
def test_a_tree_has_its_groups_level_by_level_the_positions_of_its_leaves_and_what_levels_save(
    problem: TopologyProblem,
) -> None:
    encoding = encode(problem)
    tree = group_tree(encoding)
    n_vertices, n_idle = len(tree.idle), len(problem.idle_nodes)
    assert sorted(tree.children.tolist()) == list(range(n_vertices - 1))
    for vertex in range(n_vertices):
        children = tree.children[tree.first_child[vertex] : tree.first_child[vertex + 1]]
        assert (children < vertex).all()
        assert len(children) == 0 or tree.idle[children].sum() == tree.idle[vertex]
    assert (tree.idle[-1], tree.weight[-1]) == (n_idle, 0)
    assert tree.idle.min() >= 1
    assert tree.weight[:-1] == pytest.approx(np.repeat(encoding.weights, encoding.n_groups))
    assert sorted(tree.leaf_positions.tolist()) == list(range(n_idle))
    leaf_of = encoding.groups[0] if len(encoding.groups) else np.zeros(n_idle, dtype=np.int64)
    for leaf, (first, last) in enumerate(pairwise(tree.leaf_first)):
        assert set(leaf_of[tree.leaf_positions[first:last]].tolist()) == {leaf}
        assert last - first == tree.idle[leaf]


@given(windows(most_idle=12, most_jobs=6))
def test_sizes_are_distinct_and_counts_add_up_to_the_jobs(problem: TopologyProblem) -> None:
    blocks = Blocks.of(problem)
    assert sorted(problem.sizes.tolist()) == [
        size for size, count in zip(blocks.sizes.tolist(), blocks.counts.tolist(), strict=True) for _ in range(count)
    ]
    assert blocks.costs.shape == (len(blocks.sizes), len(problem.idle_nodes))


def test_starts_go_to_the_jobs_of_their_size_in_order() -> None:
    problem = window(FatTree(1, 2, 5), range(10), [2, 3, 2])
    blocks = Blocks.of(problem)
    starts = blocks.starts_of_jobs(problem, [[7, 0], [3]])
    assert starts.tolist() == [0, 3, 7]
    expected = blocks.costs[0, 0] + blocks.costs[0, 7] + blocks.costs[1, 3]
    assert problem.objective(Allocation.of_blocks(problem, starts)) == pytest.approx(expected)
