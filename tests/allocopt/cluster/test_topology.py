"""Fat trees: shape, groups, and what is refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.brute_force import switches_above
from support.windows import fat_trees

from allocopt.cluster.topology import LARGEST_CLUSTER, FatTree
from allocopt.errors import AllocoptError, InvalidProblemError


@given(fat_trees)
def test_nodes_are_numbered_from_left_to_right(tree: FatTree) -> None:
    groups = tree.groups_of(np.arange(tree.size))
    assert groups.T.tolist() == switches_above(tree)
    assert len(np.unique(groups[0])) == tree.pods * tree.leaves_per_pod
    assert len(np.unique(groups[1])) == tree.pods


def test_a_fat_tree_has_the_papers_hops_and_counts_ordered_pairs() -> None:
    tree = FatTree(10, 10, 10)
    assert (tree.size, tree.hops, tree.pairs) == (1000, (2, 4, 6), "ordered")


def test_a_fat_tree_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FatTree(1, 1, 1).pods = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"pods": 0}, "topology.pods"),
        ({"leaves_per_pod": -1}, "topology.leaves_per_pod"),
        ({"nodes_per_leaf": 0}, "topology.nodes_per_leaf"),
        ({"pods": 1.5}, "topology.pods"),
        ({"hops": (2.5, 4, 6)}, "topology.hops"),
        ({"hops": (2, 4)}, "topology.hops"),
        ({"hops": (2, 4, 4)}, "topology.hops"),
        ({"hops": (6, 4, 2)}, "topology.hops"),
        ({"hops": (-1, 4, 6)}, "topology.hops"),
        ({"hops": (2, 4, 1_000_001)}, "topology.hops"),
        ({"pods": LARGEST_CLUSTER + 1}, "topology"),
    ],
)
def test_a_wrong_shape_is_refused_and_its_place_named(arguments: dict[str, Any], place: str) -> None:
    shape: dict[str, Any] = {"pods": 1, "leaves_per_pod": 1, "nodes_per_leaf": 1, **arguments}
    with pytest.raises(InvalidProblemError) as caught:
        FatTree(**shape)
    assert caught.value.place == place
    assert isinstance(caught.value, AllocoptError)
    assert caught.value.exit_code == 3


def test_the_largest_cluster_is_taken() -> None:
    assert FatTree(LARGEST_CLUSTER // 100, 10, 10).size == LARGEST_CLUSTER
