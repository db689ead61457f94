"""Trees with named nodes, made of switches that name the nodes or switches below them.

A leaf switch, which has nodes, is at level 1; any other switch is one level above the highest switch below it, as in
Slurm. The hops between two nodes depend on the level of the lowest switch above both. If there are several switches on
top, the topology is a forest, and a job stays within one of its trees.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

import numpy as np

from allocopt.cluster.hostlist import check_listable, fold_hostlist
from allocopt.cluster.topology import Topology, Tree
from allocopt.errors import InvalidProblemError

MOST_LEVELS = 64  # largest number of levels of switches


@dataclass(frozen=True, slots=True, eq=False)
class NamedTree:
    """A cluster as its site describes it: a tree, and the names of its nodes.

    Raises `InvalidProblemError` if there is not one name for each node, or a name has control characters.

    Nodes are numbered so that those of a switch are contiguous. Remarks are lines about oddities of the description and
    how they were resolved. ``is_joined`` says whether the groups of the highest level below the top are connected, so
    that a job may span them; if not, they are the trees of a forest. ``block_sizes`` are the numbers of nodes that
    Slurm plans for a block and for joined blocks, by level; empty if no blocks are enforced. ``is_beside`` marks a ring
    or torus, in which jobs get adjacent nodes; the tree does not show which nodes are adjacent.
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
        # A name with a line break would be read as two lines.
        broken = next((name for name in self.nodes if not name.isprintable()), None)
        if broken is not None:
            raise InvalidProblemError("topology nodes", f"node {broken!r} has a control character in its name")

    @property
    def is_plain(self) -> bool:
        """Whether a job may get any set of nodes; blocks of one node each do not restrict it."""
        return self.is_joined and not self.is_beside and self.block_sizes in ((), (1,))

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of nodes, given their names. Raises `InvalidProblemError` for an unknown name."""
        try:
            return [self._numbers[name] for name in names]
        except KeyError as error:
            raise InvalidProblemError("topology nodes", f"there is no node {error.args[0]!r}") from None

    def among(self, names: Container[str]) -> "NamedTree | None":
        """Return the tree of the nodes whose names are among the given ones, None if there are none."""
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
        """Return, for each level below the top, how many groups a job of ``nodes`` nodes may span; 0 means any number.

        A job stays within one tree of a forest. If block sizes are enforced, the number of blocks that the job needs is
        rounded up to a power of two. The job stays within one group of the smallest block size that has as many blocks,
        and spans no more groups of the next lower size than it fills (topology.conf(5), BlockSizes; checked against
        Slurm's plugin topology/block).
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
            # A size that joins all blocks is the top, which is not among the levels.
            if 0 < within <= len(most):
                limit = -(-nodes // self.block_sizes[within - 1])
                most[within - 1] = limit if limit < len(self.tree.names[within - 1]) else 0
        return tuple(most)

    def is_like(self, topology: Topology) -> bool:
        """Return whether a topology has as many nodes and, at each level, the same ranges of node numbers as groups."""
        if topology.size != self.tree.size:
            return False
        # A group may have another number in the other topology; only the borders between groups must be equal.
        own, other = self.tree.groups, topology.groups_of(np.arange(topology.size))
        return own.shape == other.shape and np.array_equal(np.diff(own) != 0, np.diff(other) != 0)

    def hostlist(self, numbers: Iterable[int]) -> str:
        """Return nodes, given their numbers, as a hostlist. Raises `HostlistError` for a name that would be misread."""
        names = [self.nodes[number] for number in sorted(numbers)]
        for name in names:
            check_listable(name)
        return fold_hostlist(names)

    def summary(self) -> str:
        """Return one line with the number of nodes, the groups per level and the hops."""
        levels = ", ".join(f"{len(names)} at level {level}" for level, names in enumerate(self.tree.names, 1))
        hops = ", ".join(map(str, self.tree.hops))
        return f"{self.tree.size} nodes; groups: {levels or 'one'}; hops {hops}"


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch with its nodes or the switches below it; ``place`` is where it is described, such as ``line 3``."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    place: str = ""


def placed_tree(places: Mapping[str, tuple[str, ...]]) -> NamedTree:
    """Return the tree of nodes, given the names of the groups above each node from the top downwards.

    All nodes have equally many groups. Raises `InvalidProblemError` if they have more than `MOST_LEVELS`.
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
    # If a name occurs in several places, each of these groups is named by its path from the top.
    groups = [group for found in below.values() for group in found]
    counts = Counter(group[-1] for group in groups)
    names = {group: group[-1] if counts[group[-1]] == 1 else "/".join(group) for group in groups}
    leaves = [Switch(names.get(place, "/"), tuple(found)) for place, found in held.items()]
    above = [Switch(names.get(at, "/"), (), tuple(map(names.__getitem__, found))) for at, found in below.items()]
    # The first is the root above all others. If it has only one switch below it, that one is the top.
    return tree_of_switches([*leaves, *(above[1:] if above and len(above[0].switches) == 1 else above)])


def tree_of_switches(switches: Sequence[Switch]) -> NamedTree:
    """Return the tree of some switches in any order, with hops 2, 4, 6, ...

    A node or switch below two switches stays with the first of them; a switch without nodes below it is left out.
    Remarks report both. Nodes are numbered leaf switch by leaf switch, depth first from the first switch on top.

    Raises `InvalidProblemError`, whose place names the switch, if a switch is given twice, is missing, has both nodes
    and switches below it, is its own ancestor or has more than `MOST_LEVELS` levels, or if no node is left.
    """
    known: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in known:
            earlier = known[switch.name].place
            raise InvalidProblemError(switch.place, f"switch {switch.name!r} is given twice, first at {earlier}")
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
        remarks.append(
            f"{len(roots)} switches have no switch above them ({shown}): separate trees, a job stays within one"
        )
    return _numbered_tree(roots, below, nodes, heights, tuple(remarks))


def _owned(members: Mapping[str, Sequence[str]], noun: str) -> tuple[dict[str, list[str]], dict[str, str], list[str]]:
    # Return the members that each switch keeps, the switch above each member, and remarks on members of two switches.
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
    # Return the level of each switch, 0 if it has no nodes below it; such switches are removed from ``below``.
    heights: dict[str, int] = {}
    try:
        for name in TopologicalSorter(below).static_order():
            below[name] = [child for child in below[name] if heights[child]]
            highest = max((heights[child] for child in below[name]), default=0)
            heights[name] = 1 if nodes[name] else highest + 1 if highest else 0
    except CycleError as error:
        circle = " under ".join(error.args[1])
        fault = f"switches form a cycle: {circle}; a switch must list only what is below it"
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
        # If a path skips levels, the switch below stands for them, too. The nodes of a leaf switch share all groups.
        if nodes[path[-1]]:
            groups = [next(name for name in path if heights[name] <= level) for level in range(1, below_top + 1)]
            column = [known.setdefault(group, len(known)) for known, group in zip(numbers, groups, strict=True)]
            order += nodes[path[-1]]
            columns += [column] * len(nodes[path[-1]])
    matrix = np.array(columns, dtype=np.int64).reshape(len(order), below_top).T
    tree = Tree(matrix, tuple(map(tuple, numbers)), Tree.default_hops(below_top))
    return NamedTree(tree, tuple(order), remarks, is_joined=len(roots) == 1)
