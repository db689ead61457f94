"""Trees of named groups: any depth, any numbering, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import switches_above
from support.windows import trees

from allocopt.cluster.topology import FatTree, Tree
from allocopt.errors import InvalidProblemError


@given(trees())
def test_named_groups_and_groups_say_the_same(tree: Tree) -> None:
    again = Tree.from_levels(tree.to_levels(), tree.hops, tree.pairs)
    assert again.groups.tolist() == tree.groups.tolist()
    assert (again.names, again.hops, again.pairs) == (tree.names, tree.hops, tree.pairs)


@given(trees())
def test_nodes_share_a_group_where_their_named_switches_are_the_same(tree: Tree) -> None:
    above = switches_above(tree)
    groups = tree.groups_of(np.arange(tree.size))
    for a in range(tree.size):
        for b in range(tree.size):
            same = [x == y for x, y in zip(above[a], above[b], strict=True)]
            assert (groups[:, a] == groups[:, b]).tolist() == same


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_a_fat_tree_spelled_out_has_the_groups_of_a_fat_tree(pods: int, leaves: int, nodes: int) -> None:
    fat = FatTree(pods, leaves, nodes)
    leaf_groups = {f"leaf-{n}": list(range(n * nodes, (n + 1) * nodes)) for n in range(pods * leaves)}
    pod_groups = {f"pod-{p}": [f"leaf-{p * leaves + n}" for n in range(leaves)] for p in range(pods)}
    tree = Tree.from_levels([leaf_groups, pod_groups], (2, 4, 6))
    assert tree.groups.tolist() == fat.groups_of(np.arange(fat.size)).tolist()


def test_the_top_level_may_be_named_or_left_out() -> None:
    leaves: dict[str, list[int | str]] = {"a": [0, 2], "b": [1]}
    left_out = Tree.from_levels([leaves])
    named = Tree.from_levels([leaves, {"top": ["a", "b"]}])
    assert left_out.hops == named.hops == (2, 4)
    assert left_out.groups.tolist() == named.groups.tolist() == [[0, 1, 0]]


def test_a_single_level_is_the_top_itself() -> None:
    tree = Tree.from_levels([{"top": [2, 0, 1]}])
    assert (tree.hops, tree.size, tree.groups_of(np.array([0, 2])).shape) == ((2,), 3, (0, 2))


def test_one_leaf_below_the_top_is_a_level_where_the_hops_say_so() -> None:
    assert Tree.from_levels([{"a": [0, 1]}], (1, 5)).groups.tolist() == [[0, 0]]


def test_groups_are_read_only() -> None:
    tree = Tree.from_levels([{"a": [0], "b": [1]}])
    with pytest.raises(ValueError, match="read-only"):
        tree.groups[0, 0] = 1


@pytest.mark.parametrize(
    ("levels", "hops", "place", "fault"),
    [
        ([], None, "topology.levels", "empty"),
        ([{}], None, "topology.levels", "empty"),
        ([{"a": [0], "b": []}], None, "topology.levels[0].b", "empty"),
        ([{"a": [0], "b": [2]}], None, "topology.levels[0].b", "holds 2"),
        ([{"a": [0, 1], "b": [1]}], None, "topology.levels[0].b", "holds 1"),
        ([{"a": [0, 0], "b": [1]}], None, "topology.levels[0].a", "another group already"),
        ([{"a": [-1, 0]}], None, "topology.levels[0].a", "holds -1"),
        ([{"a": [0], "b": [1]}, {"p": ["a", "c"]}], None, "topology.levels[1].p", "'c'"),
        ([{"a": [0], "b": [1]}, {"p": ["a"], "q": ["a"]}], None, "topology.levels[1].q", "'a'"),
        ([{"a": [0], "b": [1]}, {"p": ["a"]}], None, "topology.levels[1]", "'b'"),
        ([{"a": [0], "b": [1]}], (2,), "topology.levels[0]", "2 groups"),
        ([{"a": [0], "b": [1]}], (2, 4, 6), "topology.hops", "3 values"),
        ([{"a": [0], "b": [1]}], (4, 2), "topology.hops", "rise"),
        ([{"a": [0]}], (), "topology.hops", ""),
    ],
)
def test_a_wrong_tree_is_refused_and_its_place_named(levels: Any, hops: Any, place: str, fault: str) -> None:
    with pytest.raises(InvalidProblemError) as caught:
        Tree.from_levels(levels, hops)
    assert caught.value.place == place
    assert fault in caught.value.fault


def test_groups_that_do_not_nest_are_refused() -> None:
    with pytest.raises(InvalidProblemError, match=r"levels\[1\].*splits"):
        Tree(np.array([[0, 0, 1], [0, 1, 1]]), (("a", "b"), ("p", "q")), (2, 4, 6))


@pytest.mark.parametrize("groups", [np.array([0, 0]), np.zeros((2, 3), int), np.zeros((1, 0), int)])
def test_groups_of_a_wrong_shape_are_refused(groups: np.ndarray) -> None:
    with pytest.raises(InvalidProblemError, match=r"topology\.levels"):
        Tree(groups, (("a",),), (2, 4))
