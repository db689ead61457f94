"""Switches that become a tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.cluster.topology import FatTree, Tree
from allocopt.errors import InvalidProblemError


def leaf(name: str, *nodes: str) -> Switch:
    return Switch(name, nodes=nodes, place=f"at {name}")


def above(name: str, *switches: str) -> Switch:
    return Switch(name, switches=switches, place=f"at {name}")


def hops(cluster: NamedTree, first: str, second: str) -> int:
    """Count the hops between two nodes, level by level."""
    a, b = cluster.numbers([first, second])
    meets = [level for level, row in enumerate(cluster.tree.groups) if row[a] == row[b]]
    return cluster.tree.hops[meets[0] if meets else -1]


TWO_TREES = "2 switches have no switch above them (s1, s2): separate trees, a job stays within one"


@pytest.mark.parametrize(
    ("switches", "nodes", "remarks"),
    [
        (
            [leaf("s1", "a"), leaf("s2", "b")],
            "ab",
            ["2 switches have no switch above them (s1, s2): separate trees, a job stays within one"],
        ),
        (
            [above("t", "s1", "s2"), leaf("s1", "a", "b"), leaf("s2", "b", "c", "a")],
            "abc",
            ["node b is under s1 and s2: it stays under s1 (the first of 2 nodes under two switches)"],
        ),
        (
            [leaf("s1", "a"), leaf("s2", "b"), above("spine1", "s1", "s2"), above("spine2", "s1", "s2")],
            "ab",
            [
                "switch s1 is under spine1 and spine2: it stays under spine1 (the first of 2 switches under two "
                "switches)",
                "at spine2: switch spine2 has no nodes left below it: it is left out",
            ],
        ),
        (
            [above("t", "s1", "m"), above("m", "s2"), leaf("s1", "a"), leaf("s2")],
            "a",
            ["at s2: switch s2 has no nodes left below it: it is left out (the first of 2 switches without nodes)"],
        ),
    ],
    ids=["several on top", "a node under two", "spines over the same leaves", "no nodes"],
)
def test_an_oddity_is_decided_and_remarked(switches: list[Switch], nodes: str, remarks: list[str]) -> None:
    cluster = tree_of_switches(switches)
    assert ("".join(cluster.nodes), cluster.tree.hops, list(cluster.remarks)) == (nodes, (2, 4), remarks)


@pytest.mark.parametrize(
    ("switches", "place", "fault"),
    [
        ([leaf("s", "a"), leaf("s", "b")], "at s", "switch 's' is given twice, first at at s"),
        ([Switch("s", ("a",), ("t",), "here"), leaf("t", "b")], "here", "has both nodes and switches"),
        ([above("t", "s")], "at t", "switch 't' has 's' below it, which is not given"),
        ([above("a", "b"), above("b", "a"), leaf("s", "n")], "at a", "switches form a cycle: a under b under a"),
        ([above("a", "a")], "at a", "switches form a cycle: a under a"),
        ([leaf("s")], "", "no switch connects any node"),
        ([], "", "no switch connects any node"),
        (
            [*(above(f"s{n}", f"s{n + 1}") for n in range(3000)), leaf("s3000", "n")],
            "at s0",
            "switch 's0' and those below it have 3001 levels, must be at most 64",
        ),
    ],
)
def test_switches_that_make_no_tree_are_refused(switches: list[Switch], place: str, fault: str) -> None:
    with pytest.raises(InvalidProblemError) as raised:
        tree_of_switches(switches)
    assert raised.value.place == place
    assert fault in raised.value.fault


@st.composite
def forests(draw: st.DrawFn) -> list[Switch]:
    """Draw switches above each other, each below at most one, in any order."""
    count = draw(st.integers(1, 12))
    parents = [draw(st.integers(0, number - 1)) if number and draw(st.booleans()) else None for number in range(count)]
    below = {number: [child for child, parent in enumerate(parents) if parent == number] for number in range(count)}
    switches = [
        above(f"s{number}", *(f"s{child}" for child in below[number]))
        if below[number]
        else leaf(f"s{number}", *(f"n{number}-{node}" for node in range(draw(st.integers(1, 3)))))
        for number in range(count)
    ]
    return draw(st.permutations(switches))


@given(forests())
def test_two_nodes_are_as_far_apart_as_the_lowest_switch_above_both_is_high(switches: list[Switch]) -> None:
    cluster = tree_of_switches(switches)
    assert cluster.tree.hops == tuple(range(2, 2 * len(cluster.tree.hops) + 1, 2))
    by_name = {switch.name: switch for switch in switches}
    parent = {child: switch.name for switch in switches for child in switch.switches}
    home = {node: switch.name for switch in switches for node in switch.nodes}

    def height(name: str) -> int:
        return 1 + max((height(child) for child in by_name[name].switches), default=0)

    def ancestors(name: str | None) -> list[str]:
        return [] if name is None else [name, *ancestors(parent.get(name))]

    for first in home:
        for second in home:
            shared = [name for name in ancestors(home[first]) if name in ancestors(home[second])]
            level = height(shared[0]) if shared else len(cluster.tree.hops)
            assert hops(cluster, first, second) == cluster.tree.hops[level - 1]
    for row in cluster.tree.groups:
        assert len(np.flatnonzero(np.diff(row))) == len(np.unique(row)) - 1, "a group is numbered with a hole"


def test_names_and_numbers_of_nodes_go_both_ways() -> None:
    cluster = tree_of_switches([leaf("s1", "n1", "n2", "n3"), leaf("s2", "m1")])
    assert cluster.numbers(["m1", "n2"]) == [3, 1]
    assert cluster.hostlist([2, 0, 3, 1]) == "n[1-3],m1"
    assert cluster.summary() == "4 nodes; groups: 2 at level 1; hops 2, 4"
    with pytest.raises(InvalidProblemError, match="there is no node 'n4'"):
        cluster.numbers(["n4"])


@pytest.mark.parametrize("names", [("a",), ("a", "a"), ("a", "b", "c")])
def test_names_must_be_one_per_node(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidProblemError, match="distinct names are given to 2 nodes"):
        NamedTree(Tree.from_levels([{"s": [0, 1]}]), names)


def test_a_tree_is_like_a_fat_tree_of_its_shape_and_no_other() -> None:
    cluster = tree_of_switches([leaf("s1", "a", "b"), leaf("s2", "c", "d"), above("p1", "s1"), above("p2", "s2")])
    assert cluster.is_like(cluster.tree)
    assert cluster.is_like(FatTree(2, 1, 2))
    assert not cluster.is_like(FatTree(1, 2, 2))
    assert not cluster.is_like(FatTree(2, 2, 2))
    assert not cluster.is_like(Tree.from_levels([{"s1": [0, 1], "s2": [2, 3]}, {"t": ["s1", "s2"]}]))
