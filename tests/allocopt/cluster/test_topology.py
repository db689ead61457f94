"""Trees: their groups, hops and costs."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import cost_of, hop_matrix, pairwise_cost, switches_above
from support.windows import fat_trees, trees, windows

from allocopt.cluster.topology import LARGEST_CLUSTER, FatTree, HopFormula, Tree, hop_costs
from allocopt.errors import AllocoptError, InvalidProblemError
from allocopt.problems.topology import Allocation, TopologyProblem


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


def test_the_largest_cluster_is_taken_and_has_the_papers_hops_and_ordered_pairs() -> None:
    tree = FatTree(LARGEST_CLUSTER // 100, 10, 10)
    assert (tree.size, tree.hops, tree.pairs) == (LARGEST_CLUSTER, (2, 4, 6), "ordered")


@given(trees())
def test_named_groups_and_groups_say_the_same(tree: Tree) -> None:
    again = Tree.from_levels(tree.to_levels(), tree.hops, tree.pairs)
    assert again.groups.tolist() == tree.groups.tolist()
    assert (again.names, again.hops, again.pairs) == (tree.names, tree.hops, tree.pairs)


@given(fat_trees | trees())
def test_nodes_share_a_group_where_the_switches_above_them_are_the_same(tree: FatTree | Tree) -> None:
    above, groups = switches_above(tree), tree.groups_of(np.arange(tree.size))
    if isinstance(tree, FatTree):
        assert groups.T.tolist() == above, "nodes are not numbered from left to right"
    for a in range(tree.size):
        for b in range(tree.size):
            same = [x == y for x, y in zip(above[a], above[b], strict=True)]
            assert (groups[:, a] == groups[:, b]).tolist() == same


@pytest.mark.parametrize(
    ("levels", "hops", "groups"),
    [
        ([{"a": [0, 2], "b": [1]}], None, [[0, 1, 0]]),
        ([{"a": [0, 2], "b": [1]}, {"top": ["a", "b"]}], None, [[0, 1, 0]]),
        ([{"top": [2, 0, 1]}], None, []),
        ([{"a": [0, 1]}], (1, 5), [[0, 0]]),
    ],
    ids=["top left out", "top named", "top alone", "a leaf below the top where hops say so"],
)
def test_the_top_level_may_be_named_or_left_out(levels: Any, hops: Any, groups: list[list[int]]) -> None:
    tree = Tree.from_levels(levels, hops)
    assert (tree.groups.tolist(), tree.hops) == (groups, hops or (2, 4)[: len(groups) + 1])


def test_a_tree_cannot_be_changed() -> None:
    tree = Tree.from_levels([{"a": [0], "b": [1]}])
    with pytest.raises(dataclasses.FrozenInstanceError):
        FatTree(1, 1, 1).pods = 2  # type: ignore[misc]
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
        ([{"a": [0], "b": [1]}], (2,), "topology.levels[0]", "has 2 groups, must have 1"),
        ([{"a": [0], "b": [1]}], (2, 4, 6), "topology.hops", "3 values"),
        ([{"a": [0], "b": [1]}], (4, 2), "topology.hops", "strictly increasing"),
        ([{"a": [0]}], (), "topology.hops", ""),
    ],
)
def test_a_wrong_tree_is_refused_and_its_place_named(levels: Any, hops: Any, place: str, fault: str) -> None:
    with pytest.raises(InvalidProblemError) as caught:
        Tree.from_levels(levels, hops)
    assert caught.value.place == place
    assert fault in caught.value.fault


@pytest.mark.parametrize(
    ("groups", "hops", "fault"),
    [
        ([[0, 0, 1], [0, 1, 1]], (2, 4, 6), r"levels\[1\].*splits"),
        *((groups, (2, 4), r"topology\.levels") for groups in ([0, 0], [[0, 0, 0], [0, 0, 0]], [[]])),
    ],
)
def test_groups_that_do_not_nest_or_have_a_wrong_shape_are_refused(groups: Any, hops: Any, fault: str) -> None:
    with pytest.raises(InvalidProblemError, match=fault):
        Tree(np.array(groups, dtype=int), (("a", "b"), ("p", "q")), hops)


@given(windows(most_idle=12), st.data())
def test_a_cost_by_counts_is_the_cost_pair_by_pair_in_any_order_of_the_nodes(
    problem: TopologyProblem, data: st.DataObject
) -> None:
    positions = data.draw(
        st.lists(st.lists(st.integers(0, len(problem.idle_nodes) - 1), min_size=1, unique=True), min_size=1, max_size=4)
    )
    hops = hop_matrix(problem)
    costs = hop_costs(problem.topology, problem.hop_cost, [problem.idle_nodes[chosen] for chosen in positions])
    assert costs.tolist() == pytest.approx([pairwise_cost(problem, hops, chosen) for chosen in positions], rel=1e-12)


@given(windows(most_idle=10), st.randoms(use_true_random=False))
def test_the_objective_is_the_sum_of_the_jobs_pairwise_costs(problem: TopologyProblem, random: object) -> None:
    owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    jobs = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    owners[: len(jobs)] = jobs
    random.shuffle(owners)  # type: ignore[attr-defined]
    expected = cost_of(problem, tuple(owners.tolist()), hop_matrix(problem))
    assert problem.objective(Allocation.of_owners(problem, owners)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("nodes", "cost"),
    [([0], 0.0), ([0, 1], 2.0), ([0, 10], 4.0), ([0, 100], 6.0), ([0, 1, 10, 100], (2 * 2 + 4 * 4 + 6 * 6) / 4)],
)
def test_hops_of_two_four_six_give_the_papers_costs(nodes: list[int], cost: float) -> None:
    assert hop_costs(FatTree(10, 10, 10), 1000.0, [np.array(nodes)])[0] == pytest.approx(1000 * cost)


@given(fat_trees | trees(), st.data())
def test_a_pair_that_counts_once_costs_half(topology: FatTree, data: st.DataObject) -> None:
    nodes = np.array(data.draw(st.lists(st.integers(0, topology.size - 1), min_size=1, unique=True)))
    formula = HopFormula.of(topology, 8.0)
    assert formula.scale == (8.0 if topology.pairs == "ordered" else 4.0)
    twice = hop_costs(topology, 16.0, [nodes])
    assert twice == pytest.approx(2 * hop_costs(topology, 8.0, [nodes]))


@pytest.mark.slow
def test_the_largest_job_with_the_largest_hops_has_a_positive_cost() -> None:
    tree = FatTree(4_000_000, 1, 1, (0, 1, 1_000_000))
    cost = hop_costs(tree, 1.0, [np.arange(4_000_000)])[0]
    assert cost == pytest.approx(1e6 * (4_000_000 - 1))
