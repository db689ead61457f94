"""Classes hold what their groups hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.windows import paper_window, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from formulations.topology.prices.pricing import MergedTree


def levels_of(problem: TopologyProblem) -> range:
    return range(len(problem.topology.hops))


@given(windows(most_idle=12, most_jobs=4), st.data())
def test_every_group_is_in_one_stock_of_its_class(problem: TopologyProblem, data: st.DataObject) -> None:
    encoding = encode(problem)
    tree, class_of_group = MergedTree.of(encoding, data.draw(st.sampled_from(levels_of(problem))))
    idle = [np.bincount(groups).tolist() for groups in encoding.groups]
    groups = [
        pair for nodes, classes in zip(idle, class_of_group, strict=True) for pair in zip(classes, nodes, strict=True)
    ]
    stocks = zip(tree.stock_class.tolist(), tree.stock_idle.tolist(), tree.stock_count.tolist(), strict=True)
    assert sorted(groups) == sorted(pair for *pair_, count in stocks for pair in [tuple(pair_)] * count)
    assert tree.members[:-1].sum() == len(groups)
    for v in range(len(tree.widest) - 1):
        most = max(nodes for owner, nodes in groups if owner == v)
        assert tree.widest[v] == min(most, problem.sizes.max())
        assert tree.worth_first[v + 1] - tree.worth_first[v] == most + 1
        assert tree.first[v + 1] - tree.first[v] == tree.widest[v] + 1
    assert tree.n_rows == (tree.widest[:-1] + 1).sum()


@given(windows(most_idle=12, most_jobs=4))
def test_without_merging_the_classes_are_the_groups(problem: TopologyProblem) -> None:
    encoding = encode(problem)
    tree, groups = MergedTree.of(encoding, 0)[0], group_tree(encoding)
    assert (tree.members == 1).all()
    assert tree.first_child.tolist() == groups.first_child.tolist()
    assert tree.children.tolist() == groups.children.tolist()
    assert tree.weight.tolist() == groups.weight.tolist()
    assert tree.stock_idle.tolist() == groups.idle[:-1].tolist()


@given(windows(most_idle=12, most_jobs=4))
def test_under_the_top_there_is_a_class_for_every_level(problem: TopologyProblem) -> None:
    encoding = encode(problem)
    top = len(encoding.groups)
    tree = MergedTree.of(encoding, top)[0]
    assert tree.weight.tolist() == [*encoding.weights.tolist(), 0.0]
    assert tree.members.tolist() == [*encoding.n_groups.tolist(), 1]
    assert np.diff(tree.first_child).tolist() == [0, *[1] * top][: top + 1]


@pytest.mark.parametrize(("level", "classes"), [(0, 9 + 3 + 1), (1, 3 + 3 + 1), (2, 3)])
def test_a_level_says_which_groups_stay_apart(level: int, classes: int) -> None:
    tree, _ = MergedTree.of(encode(window(FatTree(3, 3, 4), range(36), [5, 3])), level)
    assert len(tree.widest) == classes


def test_pods_keep_their_own_leaves_where_they_stay_apart() -> None:
    encoding = encode(paper_window(1))
    _, class_of_group = MergedTree.of(encoding, 1)
    pods = class_of_group[1][encoding.groups[1]]
    leaves = class_of_group[0][encoding.groups[0]]
    assert len(np.unique(np.stack((pods, leaves)), axis=1).T) == encoding.n_groups[1]
