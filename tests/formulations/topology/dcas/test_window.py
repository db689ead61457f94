"""The sequence: levels that tell nodes apart, and the cuts that leave every group an interval."""

import numpy as np
import pytest
from hypothesis import given
from support.windows import fat_trees, resequenced, window, windows

from allocopt.cluster.topology import FatTree, Tree
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode
from formulations.topology.dcas.window import Window, cuts, distinct_levels


def test_a_level_with_a_single_group_is_left_out_and_equal_levels_are_added() -> None:
    groups, weights = distinct_levels(encode(window(FatTree(3, 1, 4), range(12), [2])))
    assert groups.tolist() == [[0] * 4 + [1] * 4 + [2] * 4]
    assert weights.tolist() == [4.0]
    groups, weights = distinct_levels(encode(window(FatTree(1, 3, 4), range(12), [2])))
    assert weights.tolist() == [2.0]
    groups, weights = distinct_levels(encode(window(FatTree(1, 1, 4), range(4), [2])))
    assert (groups.shape, len(weights)) == ((0, 4), 0)


def test_the_sequence_of_a_fat_tree_is_leaves_within_pods() -> None:
    problem = window(FatTree(2, 2, 3), [0, 1, 3, 7, 8, 9, 10, 11], [2])
    encoding = encode(problem)
    groups, weights = distinct_levels(encoding)
    assert cuts(groups).tolist() == [0, 3]
    cut_open = Window.of(encoding, groups, weights, 3)
    assert cut_open.leaf.tolist() == [0, 0, 1, 1, 1, 2, 2, 3]
    assert cut_open.leaf_start.tolist() == [0, 2, 5, 7, 8]
    assert cut_open.pod.tolist() == [0, 0, 1, 1]
    assert cut_open.pod_start.tolist() == [0, 2, 4]
    assert cut_open.weights.tolist() == [2.0, 2.0]


@given(windows(most_idle=9, topologies=fat_trees))
def test_a_fat_tree_can_always_be_cut_however_it_is_turned(problem: TopologyProblem) -> None:
    m = len(problem.idle_nodes)
    for shift in range(m):
        assert len(cuts(distinct_levels(encode(resequenced(problem, np.roll(np.arange(m), shift))))[0])) > 0


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [0, 2, 3, 1]])
def test_a_switch_whose_nodes_are_scattered_leaves_no_cut_unless_they_meet_around_the_end(order: list[int]) -> None:
    tree = Tree.from_levels([{"a": [0, 1], "b": [2, 3]}])
    problem = resequenced(window(tree, range(4), [2]), order)
    assert len(cuts(distinct_levels(encode(problem))[0])) == (2 if order == [0, 2, 3, 1] else 0)
