"""Trees whose nodes have names, made of switches that name the nodes or switches below them.

A leaf switch, which has nodes, is at level 1; any other switch is one level above its highest switch, as in Slurm. Two
nodes are as far apart as the level of the lowest switch above both. What has several switches on top is a forest, whose
trees no job leaves.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

import numpy as np

from allocopt.cluster.hostlist import check_listable, fold_hostlist
from allocopt.cluster.topology import Topology, Tree
from allocopt.errors import InvalidProblemError

MOST_LEVELS = 64  # levels of switches beyond which a topology is refused


@dataclass(frozen=True, slots=True, eq=False)
class NamedTree:
    """A cluster as its site describes it: a tree, and the names of its nodes.

    Raises `InvalidProblemError` if names are not one for each node, or one cannot be printed on a line.

    Nodes are numbered so that those of a switch stand together; remarks tell oddities of the description, and how they
    were decided, a line each. A job may span groups of the highest level below the top where the trees are joined, and
    else these are a forest's. Block sizes are the nodes that Slurm plans for a block and for what joins blocks, by
    level, none where no blocks are enforced. In a ring or torus, of which the tree says nothing, jobs get nodes that
    are beside each other.
    """

    tree: Tree
    nodes: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    is_joined: bool = True
    block_sizes: tuple[int, ...] = ()
    is_beside: bool = False
    _numbers: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        numbers = {name: number for number, name in enumerate(self.nodes)}
        object.__setattr__(self, "_numbers", numbers)
        if len(self.nodes) != self.tree.size or len(numbers) < len(self.nodes):
            fault = f"{len(numbers)} distinct names are given to {self.tree.size} nodes, must be one each"
            raise InvalidProblemError("topology nodes", fault)
        # Whoever reads lines takes what stands behind a line's end for another one.
        broken = next((name for name in self.nodes if not name.isprintable()), None)
        if broken is not None:
            raise InvalidProblemError("topology nodes", f"node {broken!r} has a control character in its name")

    @property
    def is_plain(self) -> bool:
        """Whether a job may have any nodes; blocks planned with one node each forbid nothing."""
        return self.is_joined and not self.is_beside and self.block_sizes in ((), (1,))

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of nodes; raise `InvalidProblemError` if there is no node of a name."""
        try:
            return [self._numbers[name] for name in names]
        except KeyError as error:
            raise InvalidProblemError("topology nodes", f"there is no node {error.args[0]!r}") from None

    def among(self, names: Container[str]) -> "NamedTree | None":
        """Return the tree of those nodes that are among some names, None if there are none."""
        kept = np.array([number for number, name in enumerate(self.nodes) if name in names], dtype=np.int64)
        if len(kept) == self.tree.size:
            return self
        if not len(kept):
            return None
        rows, level_names = [], []
        for row, known in zip(self.tree.groups[:, kept], self.tree.names, strict=True):
            # Groups keep their order.
            left, numbered = np.unique(row, return_inverse=True)
            rows.append(numbered)
            level_names.append(tuple(known[group] for group in left))
        groups = np.array(rows, dtype=np.int64).reshape(len(rows), len(kept))
        tree = Tree(groups, tuple(level_names), self.tree.hops, self.tree.pairs)
        return replace(self, tree=tree, nodes=tuple(self.nodes[number] for number in kept))

    def most_groups(self, nodes: int) -> tuple[int, ...]:
        """Return how many groups a job of some nodes may span, by level below the top, 0 for any number.

        Trees of a forest are not left. A job in blocks stays within what joins the least power of two of blocks that
        holds it, if Slurm was told to plan with that, and spans no more of the largest blocks below than it fills
        (topology.conf(5), BlockSizes; checked against Slurm's plugin topology/block).
        """
        most = [0] * len(self.tree.names)
        if not self.is_joined:
            most[-1] = 1
        if self.block_sizes:
            blocks = -(-nodes // self.block_sizes[0])
            planned = 1 << (blocks - 1).bit_length()
            ratios = [size // self.block_sizes[0] for size in self.block_sizes]
            within = next((level for level, ratio in enumerate(ratios) if ratio >= planned), len(ratios))
            if within < len(most):
                most[within] = 1
            # Where all blocks are joined by one, there is no level of it.
            if 0 < within <= len(most):
                limit = -(-nodes // self.block_sizes[within - 1])
                most[within - 1] = limit if limit < len(self.tree.names[within - 1]) else 0
        return tuple(most)

    def is_like(self, topology: Topology) -> bool:
        """Whether a topology has as many nodes, and puts the same neighbours by number into one group at each level."""
        if topology.size != self.tree.size:
            return False
        # Numbers of groups may differ; what matters is where a group ends and the next begins.
        own, other = self.tree.groups, topology.groups_of(np.arange(topology.size))
        return own.shape == other.shape and np.array_equal(np.diff(own) != 0, np.diff(other) != 0)

    def hostlist(self, numbers: Iterable[int]) -> str:
        """Write nodes as one hostlist, by their numbers; raise `HostlistError` for a name that would be misread."""
        names = [self.nodes[number] for number in sorted(numbers)]
        for name in names:
            check_listable(name)
        return fold_hostlist(names)

    def summary(self) -> str:
        """Count nodes, groups per level and hops in a line."""
        levels = ", ".join(f"{len(names)} at level {level}" for level, names in enumerate(self.tree.names, 1))
        hops = ", ".join(map(str, self.tree.hops))
        return f"{self.tree.size} nodes; groups: {levels or 'one'}; hops {hops}"


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch as a description names it, at a place such as ``line 3``, with its nodes or the switches below it."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    place: str = ""


def placed_tree(places: Mapping[str, tuple[str, ...]]) -> NamedTree:
    """Make the tree of nodes by their places, names of groups from the top downwards, as many for each node.

    Raises `InvalidProblemError` for more groups above a node than `MOST_LEVELS`.
    """
    held: dict[tuple[str, ...], list[str]] = {}
    for node, place in places.items():
        if len(place) > MOST_LEVELS:
            raise InvalidProblemError(f"node {node!r}", f"is {len(place)} groups deep, must be at most {MOST_LEVELS}")
        held.setdefault(place, []).append(node)
    below: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for place in held:
        for depth in range(len(place)):
            below.setdefault(place[:depth], {})[place[: depth + 1]] = None
    # A group is named by its name, or where that stands in several places by all names from the top.
    groups = [group for found in below.values() for group in found]
    counts = Counter(group[-1] for group in groups)
    names = {group: group[-1] if counts[group[-1]] == 1 else "/".join(group) for group in groups}
    leaves = [Switch(names.get(place, "/"), tuple(found)) for place, found in held.items()]
    above = [Switch(names.get(at, "/"), (), tuple(map(names.__getitem__, found))) for at, found in below.items()]
    # The first is what stands above all; one alone below it is the top itself.
    return tree_of_switches([*leaves, *(above[1:] if above and len(above[0].switches) == 1 else above)])


def tree_of_switches(switches: Sequence[Switch]) -> NamedTree:
    """Make the tree of some switches in any order, with hops 2, 4, 6, ...

    A node or switch that stands below two switches stays with the first; a switch without nodes below it is left out.
    Both are remarked. Nodes are numbered from the first switch on top downwards.

    Raises `InvalidProblemError`, whose place names the switch, if one is given twice, has both nodes and switches below
    it, is its own ancestor, or has more than `MOST_LEVELS` below it, if one is not there, or no node is left.
    """
    known: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in known:
            earlier = known[switch.name].place
            raise InvalidProblemError(switch.place, f"switch {switch.name!r} is given twice, before at {earlier}")
        if switch.nodes and switch.switches:
            fault = f"switch {switch.name!r} has both nodes and switches below it, must have one of them"
            raise InvalidProblemError(switch.place, fault)
        known[switch.name] = switch
    for name, switch in known.items():
        for child in switch.switches:
            if child not in known:
                raise InvalidProblemError(switch.place, f"switch {name!r} has {child!r} below it, which is not given")
    nodes, _, of_nodes = _owned({name: switch.nodes for name, switch in known.items()}, "node")
    below, above, of_switches = _owned({name: switch.switches for name, switch in known.items()}, "switch")
    heights = _heights(known, nodes, below)
    # A switch on top whose nodes all went to switches before it has the height 0.
    roots = [name for name in known if name not in above and heights[name]]
    if not roots:
        raise InvalidProblemError("", "no switch connects any node")
    fault = "has no nodes left below it: it is left out"
    empty = [f"{known[name].place}: switch {name} {fault}" for name, height in heights.items() if not height]
    remarks = [
        f"{lines[0]} (the first of {len(lines)} {noun})" if len(lines) > 1 else lines[0]
        for lines, noun in (
            (of_nodes, "nodes under two switches"),
            (of_switches, "switches under two switches"),
            (empty, "switches without nodes"),
        )
        if lines
    ]
    if len(roots) > 1:
        shown = ", ".join(roots[:4]) + (", ..." if len(roots) > 4 else "")
        remarks.append(f"{len(roots)} switches have none above them ({shown}): trees that no job leaves")
    return _numbered_tree(roots, below, nodes, heights, tuple(remarks))


def _owned(members: Mapping[str, Sequence[str]], noun: str) -> tuple[dict[str, list[str]], dict[str, str], list[str]]:
    # What is below each switch when everything has one place only, the switch above each, and what was below two.
    above: dict[str, str] = {}
    again: dict[str, str] = {}
    held = {}
    for name, below in members.items():
        for one in below:
            if above.setdefault(one, name) != name:
                again.setdefault(one, f"{noun} {one} is under {above[one]} and {name}: it stays under {above[one]}")
        held[name] = [one for one in dict.fromkeys(below) if above[one] == name]
    return held, above, list(again.values())


def _heights(
    known: Mapping[str, Switch], nodes: Mapping[str, Sequence[str]], below: dict[str, list[str]]
) -> dict[str, int]:
    # How high each switch is, 0 without nodes; those are cut off.
    heights: dict[str, int] = {}
    try:
        for name in TopologicalSorter(below).static_order():
            below[name] = [child for child in below[name] if heights[child]]
            highest = max((heights[child] for child in below[name]), default=0)
            heights[name] = 1 if nodes[name] else highest + 1 if highest else 0
    except CycleError as error:
        circle = " under ".join(error.args[1])
        fault = f"switches run in a circle: {circle}; must list what is below them alone"
        raise InvalidProblemError(known[error.args[1][0]].place, fault) from None
    tallest = max(known, key=lambda name: heights[name], default="")
    if tallest and heights[tallest] > MOST_LEVELS:
        fault = f"have {heights[tallest]} levels, must be at most {MOST_LEVELS}"
        raise InvalidProblemError(known[tallest].place, f"switch {tallest!r} and those below it {fault}")
    return heights


def _numbered_tree(
    roots: Sequence[str],
    below: Mapping[str, Sequence[str]],
    nodes: Mapping[str, Sequence[str]],
    heights: Mapping[str, int],
    remarks: tuple[str, ...],
) -> NamedTree:
    below_top = max(heights[root] for root in roots) - (len(roots) == 1)
    numbers: list[dict[str, int]] = [{} for _ in range(below_top)]
    columns: list[list[int]] = []
    order: list[str] = []
    paths: list[tuple[str, ...]] = [(root,) for root in reversed(roots)]
    while paths:
        path = paths.pop()
        paths += [(*path, child) for child in reversed(below[path[-1]])]
        # Where a path skips levels, a switch stands for several; all nodes of a leaf switch share the groups above it.
        if nodes[path[-1]]:
            groups = [next(name for name in path if heights[name] <= level) for level in range(1, below_top + 1)]
            column = [known.setdefault(group, len(known)) for known, group in zip(numbers, groups, strict=True)]
            order += nodes[path[-1]]
            columns += [column] * len(nodes[path[-1]])
    matrix = np.array(columns, dtype=np.int64).reshape(len(order), below_top).T
    tree = Tree(matrix, tuple(map(tuple, numbers)), Tree.default_hops(below_top))
    return NamedTree(tree, tuple(order), remarks, is_joined=len(roots) == 1)
