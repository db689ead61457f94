"""Trees whose nodes have names, and how they are made of switches that name what is below them.

A leaf switch, which has nodes, is at level 1; any other switch is one level above its highest switch, as in Slurm. Two
nodes are as far apart as the level of the lowest switch above both. What has several switches on top gets a level more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from allocopt.cluster.hostlist import check_listable, fold_hostlist
from allocopt.cluster.topology import Topology, Tree, default_hops
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file

MOST_LEVELS = 64  # levels of switches beyond which a topology is refused


@dataclass(frozen=True, slots=True, eq=False)
class NamedTree:
    """A cluster as its site describes it: a tree, and what its nodes are called.

    Parameters
    ----------
    tree
        The tree; its nodes are numbered so that those of a switch stand together.
    nodes
        Name of every node, by its number.
    remarks
        What of the description is odd and was decided, a line each.

    Raises
    ------
    InvalidProblemError
        If the number of names is not that of the nodes, or a name is given twice or cannot be printed on one line.
    """

    tree: Tree
    nodes: tuple[str, ...]
    remarks: tuple[str, ...] = ()
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

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of nodes; raise `InvalidProblemError` if there is no node of a name."""
        try:
            return [self._numbers[name] for name in names]
        except KeyError as error:
            raise InvalidProblemError("topology nodes", f"there is no node {error.args[0]!r}") from None

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
    """A switch as a description names it, with its nodes or the switches below it.

    ``place`` is where it is described, such as ``line 3``.
    """

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    place: str = ""


@dataclass(slots=True)
class _Forest:
    # Each switch keeps what is left when every node and switch has one place only.
    switches: dict[str, Switch] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)
    heights: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def remark(self, lines: Sequence[str], noun: str) -> None:
        more = f" (the first of {len(lines)} {noun})" if len(lines) > 1 else ""
        self.remarks += [line + more for line in lines[:1]]


def tree_in(path: Path, switches: Sequence[Switch]) -> NamedTree:
    """Make the tree of switches that a file describes; its errors are `BadFileError` that name file and place."""
    try:
        return tree_of_switches(switches)
    except InvalidProblemError as error:
        raise bad_file(path, error.place, error.fault) from None


def tree_of_switches(switches: Sequence[Switch]) -> NamedTree:
    """Make the tree of some switches in any order, with hops 2, 4, 6, ...

    A node or switch that stands below two switches stays with the first; a switch without nodes below it is left out.
    Both are remarked. Nodes are numbered from the first switch on top downwards.

    Raises `InvalidProblemError`, whose place names the switch, if one is given twice, has both nodes and switches below
    it, is its own ancestor, or has more than `MOST_LEVELS` below it, if one is not there, or no node is left.
    """
    forest = _Forest()
    for switch in switches:
        if switch.name in forest.switches:
            earlier = forest.switches[switch.name].place
            raise InvalidProblemError(switch.place, f"switch {switch.name!r} is given twice, before at {earlier}")
        if switch.nodes and switch.switches:
            fault = f"switch {switch.name!r} has both nodes and switches below it, must have one of them"
            raise InvalidProblemError(switch.place, fault)
        forest.switches[switch.name] = switch
    _give_nodes(forest)
    roots = _roots(forest)
    for root in roots:
        _measure(forest, root)
        if forest.heights[root] > MOST_LEVELS:
            count = f"{forest.heights[root]} levels, must be at most {MOST_LEVELS}"
            raise InvalidProblemError(forest.switches[root].place, f"switch {root!r} and those below it have {count}")
    # A root whose nodes all went to switches before it has the height 0, and is no root any more.
    roots = [root for root in roots if forest.heights[root]]
    if not roots:
        raise InvalidProblemError("", "no switch connects any node")
    fault = "has no nodes left below it: it is left out"
    empty = [name for name, height in forest.heights.items() if not height]
    forest.remark([f"{forest.switches[name].place}: switch {name} {fault}" for name in empty], "switches without nodes")
    if len(roots) > 1:
        shown = ", ".join(roots[:4]) + (", ..." if len(roots) > 4 else "")
        forest.remarks.append(f"{len(roots)} switches have none above them ({shown}): joined by a level on top")
    return _named_tree(forest, roots)


def _give_nodes(forest: _Forest) -> None:
    owner: dict[str, str] = {}
    again: dict[str, str] = {}
    for name, switch in forest.switches.items():
        for node in switch.nodes:
            if owner.setdefault(node, name) != name:
                again.setdefault(node, f"node {node} is under {owner[node]} and {name}: it stays under {owner[node]}")
        forest.nodes[name] = [node for node in dict.fromkeys(switch.nodes) if owner[node] == name]
    forest.remark(list(again.values()), "nodes under two switches")


def _roots(forest: _Forest) -> list[str]:
    above: dict[str, str] = {}
    again: list[str] = []
    for name, switch in forest.switches.items():
        for child in dict.fromkeys(switch.switches):
            if child not in forest.switches:
                raise InvalidProblemError(switch.place, f"switch {name!r} has {child!r} below it, which is not given")
            if above.setdefault(child, name) != name:
                again.append(f"switch {child} is under {above[child]} and {name}: it stays under {above[child]}")
        forest.below[name] = [child for child in dict.fromkeys(switch.switches) if above[child] == name]
    forest.remark(again, "switches under two switches")
    _check_no_circle(forest, above)
    return [name for name in forest.switches if name not in above]


def _check_no_circle(forest: _Forest, above: dict[str, str]) -> None:
    safe: set[str] = set()
    for name in forest.switches:
        path: dict[str, None] = {}
        at: str | None = name
        while at is not None and at not in safe:
            if at in path:
                circle = " under ".join([*list(path)[list(path).index(at) :], at])
                raise InvalidProblemError(forest.switches[at].place, f"switches run in a circle: {circle}")
            path[at] = None
            at = above.get(at)
        safe.update(path)


def _measure(forest: _Forest, root: str) -> None:
    downwards, left = [], [root]
    while left:
        downwards.append(left.pop())
        left.extend(reversed(forest.below[downwards[-1]]))
    # From the leaves upwards without recursion: a description may be deeper than Python's stack.
    for name in reversed(downwards):
        forest.below[name] = [child for child in forest.below[name] if forest.heights[child]]
        highest = max((forest.heights[child] for child in forest.below[name]), default=0)
        forest.heights[name] = 1 if forest.nodes[name] else highest + 1 if highest else 0


def _named_tree(forest: _Forest, roots: list[str]) -> NamedTree:
    below_top = max(forest.heights[root] for root in roots) - (len(roots) == 1)
    names: list[dict[str, int]] = [{} for _ in range(below_top)]
    columns: list[list[int]] = []
    nodes: list[str] = []
    for path in (path for root in roots for path in _paths(forest, (root,))):
        # Where a path skips levels, a switch stands for several.
        groups = [next(name for name in path if forest.heights[name] <= level) for level in range(1, below_top + 1)]
        column = [numbers.setdefault(group, len(numbers)) for numbers, group in zip(names, groups, strict=True)]
        held = forest.nodes[path[-1]]
        nodes += held
        # All nodes of a leaf switch share the groups above it.
        columns += [column] * len(held)
    matrix = np.array(columns, dtype=np.int64).reshape(len(nodes), below_top).T
    tree = Tree(matrix, tuple(tuple(numbers) for numbers in names), default_hops(below_top))
    return NamedTree(tree, tuple(nodes), tuple(forest.remarks))


def _paths(forest: _Forest, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not forest.below[path[-1]]:
        yield path
    for child in forest.below[path[-1]]:
        yield from _paths(forest, (*path, child))
