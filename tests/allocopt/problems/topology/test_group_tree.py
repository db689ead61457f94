"""The tree of groups with idle nodes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from support.windows import windows

from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree


@given(windows(most_idle=14))
def test_every_vertex_but_the_top_has_one_parent_that_comes_later(problem: TopologyProblem) -> None:
    tree = group_tree(encode(problem))
    n_vertices = len(tree.idle)
    assert sorted(tree.children.tolist()) == list(range(n_vertices - 1))
    for vertex in range(n_vertices):
        children = tree.children[tree.first_child[vertex] : tree.first_child[vertex + 1]]
        assert (children < vertex).all()
        assert len(children) == 0 or tree.idle[children].sum() == tree.idle[vertex]
    assert tree.idle[-1] == len(problem.idle_nodes)
    assert tree.idle.min() >= 1


@given(windows(most_idle=14))
def test_a_leaf_holds_the_positions_of_its_group(problem: TopologyProblem) -> None:
    encoding = encode(problem)
    tree = group_tree(encoding)
    assert sorted(tree.leaf_positions.tolist()) == list(range(len(problem.idle_nodes)))
    leaf_of = encoding.groups[0] if len(encoding.groups) else np.zeros(encoding.n_idle, dtype=np.int64)
    for leaf, (first, last) in enumerate(pairwise(tree.leaf_first)):
        assert set(leaf_of[tree.leaf_positions[first:last]].tolist()) == {leaf}
        assert last - first == tree.idle[leaf]


@given(windows(most_idle=14))
def test_a_group_saves_what_its_level_saves_and_the_top_nothing(problem: TopologyProblem) -> None:
    encoding = encode(problem)
    weight = group_tree(encoding).weight
    assert weight[-1] == 0
    expected = [w for w, n in zip(encoding.weights, encoding.n_groups, strict=True) for _ in range(n)]
    assert weight[:-1] == pytest.approx(expected)
